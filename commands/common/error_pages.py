"""Links from common error messages to the sections of docs/errors.md."""

from __future__ import annotations

import re
from typing import Final

#: Address of the documentation page.
SITE: Final = "https://kubestow.dev/docs/errors.html"
#: Anchors of sections with a pattern of messages each; the first match wins.
SECTIONS: Final = (
    ("a-manifest-in-place-of-a-snapshot", r"manifests are given with -w|which is a manifest and no part of a snapshot"),
    ("no-nodes", r"holds no Node objects"),
    ("an-empty-folder", r"holds no \.json, \.yaml or \.yml file"),
    ("a-file-that-cannot-be-read-or-written", r": (cannot be read: )?(No such file or directory|Permission denied|Is a directory)"),
    ("no-room-for-the-result", r"No space left on device|Disk quota exceeded"),
    ("malformed-json-or-yaml", r"JSON is malformed|: line \d+: (did not find|could not find|mapping values|found )"),
    ("a-key-given-twice", r"duplicate key"),
    ("no-quantity", r"is not a quantity"),
    ("an-unknown-field", r"unknown field|has no field"),
    ("input-that-is-too-large", r"--max-input"),
    ("kubectl-is-not-found", r"--kubectl says where kubectl is"),
    ("no-such-context", r"context \".*\" does not exist|there is no kubeconfig"),
    ("kubectl-may-not-read", r"[Ff]orbidden|cannot list"),
    ("kubectl-says-nothing", r"no answer for"),
    ("the-manifests-of-a-result", r"give the same files with -w"),
    ("a-result-of-another-snapshot", r"of another snapshot|for another snapshot"),
    ("no-result", r"expected one Placement"),
    ("no-policy-or-catalogue", r"expected one (Policy|Catalogue)\b"),
    ("no-such-pod-node-or-workload", r"no such (pod|node|workload) in (the (snapshot|input)|namespace)"),
    ("manifests-without-pods", r"holds nothing that creates pods|asks for no pods"),
)
_PATTERNS: Final = tuple((anchor, re.compile(pattern)) for anchor, pattern in SECTIONS)


def section(message: str) -> str | None:
    """Return the address of the section about a message; None if there is none."""
    anchor = next((anchor for anchor, pattern in _PATTERNS if pattern.search(message)), None)
    return f"{SITE}#{anchor}" if anchor is not None else None
