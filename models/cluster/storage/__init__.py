"""What decides about volumes besides binding: CSI migration, and to which node they are attached."""
