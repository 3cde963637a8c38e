"""What is done to one pod: evicted, replaced, bound, awaited. Enter at :mod:`kubestow.live.apply.moving.course`."""
