"""What decides about volumes besides binding: to which node they are attached."""
