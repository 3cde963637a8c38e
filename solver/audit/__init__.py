"""What is wrong with a cluster today, and what will be."""
