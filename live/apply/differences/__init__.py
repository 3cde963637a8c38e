"""What differs between the snapshot that a plan was made from and the cluster as it is, told in sentences."""
