"""What is done to one pod: evicted, replaced, bound, awaited. Enter at :mod:`live.apply.moving.course`."""
