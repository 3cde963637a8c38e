"""Names in place of those that an API server generates."""

from __future__ import annotations

from collections import Counter
from typing import Final

#: An API server cuts a longer prefix, as the suffix has five characters.
_MAX_PREFIX_CHARACTERS: Final = 58


class GeneratedNames:
    """Numbers the objects that have a ``generateName`` and no name."""

    def __init__(self) -> None:
        self._given: Counter[tuple[str, str]] = Counter()

    def stand_in(self, kind: str, prefix: str) -> str:
        """Return the prefix with a number of five digits that no earlier object of the kind has."""
        base = prefix[:_MAX_PREFIX_CHARACTERS]
        self._given[kind, base] += 1
        return f"{base}{self._given[kind, base]:05}"
