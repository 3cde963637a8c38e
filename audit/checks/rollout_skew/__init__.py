"""Rolling updates after which the pods of a Deployment can be spread worse than its constraints allow."""
