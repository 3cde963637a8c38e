"""What the descheduler would do under a policy, and what of it helps: docs/descheduler.md."""

from __future__ import annotations
