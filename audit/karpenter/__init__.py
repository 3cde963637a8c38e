"""What Karpenter could consolidate, and what blocks it: docs/karpenter.md."""

from __future__ import annotations
