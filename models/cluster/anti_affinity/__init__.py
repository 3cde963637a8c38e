"""Required anti-affinity beyond the scheduler: who may use it, and its opportunity cost."""
