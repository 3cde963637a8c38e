"""Hypothesis draws the same cases in every run, so that a green run stays green; ``--hypothesis-seed=N`` or
``--hypothesis-profile=default`` explores further."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
