"""Pods that scheduling gates hold until ``kubestow apply`` gives each the node that a Placement has for it."""
