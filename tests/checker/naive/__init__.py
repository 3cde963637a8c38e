"""What ``verify`` means, read as plainly as it can be: pod by pod, everything counted anew each time, nothing shared."""
