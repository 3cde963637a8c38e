"""What things are: quantities, Kubernetes objects, snapshots, the compiled cluster, results. Knows nothing of solving."""
