"""Positions of the fields of manifests."""

from __future__ import annotations

from collections.abc import Sequence

from models.documents.check import Position


class Positions:
    """Where the objects of some files are, and the fields of each."""

    def of(self, kind: str, namespace: str | None, name: str, field: str | None = None) -> Position | None:
        """Return where a field of an object is; of a field that is not there its nearest ancestor that is.

        Args:
            namespace: None for what is in none.
            field: the field's path, such as ``spec.template.spec.topologySpreadConstraints[0].maxSkew``; None: the object itself.
        """
        raise NotImplementedError


def read(paths: Sequence[str]) -> Positions:
    """Read where everything is in manifests that are given as on the command line: files, folders, ``-``."""
    raise NotImplementedError
