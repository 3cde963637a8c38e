"""Execution of one step: eviction, replacement, binding and waiting. Start at :mod:`kubestow.live.apply.moving.step_run`."""
