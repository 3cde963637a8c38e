"""Required affinity and anti-affinity between pods."""
