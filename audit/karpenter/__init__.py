"""Simulation of Karpenter's consolidation, and what blocks it: docs/karpenter.md."""

from __future__ import annotations
