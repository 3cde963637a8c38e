"""Volume constraints other than binding: CSI migration, and attachment to one node."""
