"""Required anti-affinity beyond the scheduler's rules: permission to use it, and its opportunity cost."""
