"""Hard spread constraints (DoNotSchedule)."""
