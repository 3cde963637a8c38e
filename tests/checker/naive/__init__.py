"""The meaning of ``verify`` in the plainest code: pod by pod, with every count taken from scratch and nothing shared."""
