"""The error for contradictory options or arguments."""

from __future__ import annotations


class WrongUse(ValueError):
    """Contradictory options, independent of the input. The command line prints the first contradiction and exits with 2.

    ``missing``: an option that the first one lacks, of which the command line shows an example.
    """

    def __init__(self, *contradictions: str, missing: str = "") -> None:
        super().__init__("\n".join(contradictions))
        self.contradictions, self.missing = contradictions, missing
