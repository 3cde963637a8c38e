"""Simulation of the descheduler under a policy, and the benefit of its evictions: docs/descheduler.md."""

from __future__ import annotations
