"""Semantic versions as device selectors compare them: SemVer 2.0.0 in canonical form, ordered without build metadata.

Sources: https://semver.org/#spec-item-11 and
https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_PRERELEASE: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_CANONICAL: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?\Z"
)
_UINT64_MAX: Final = 2**64 - 1


@dataclass(frozen=True)
class SemanticVersion:
    """A semantic version. ``prerelease`` is empty for a release. Build metadata is dropped, because no comparison uses it."""

    major: int
    minor: int
    patch: int
    prerelease: str = ""

    def compare(self, other: SemanticVersion) -> int:
        """Return -1, 0 or 1 if this version has lower, equal or higher precedence."""
        mine, others = _precedence(self), _precedence(other)
        return (mine > others) - (mine < others)


def _precedence(version: SemanticVersion) -> tuple[object, ...]:
    # Numbers sort before words, a list after its prefixes, and a release after all its prereleases.
    words = version.prerelease.split(".") if version.prerelease else []
    identifiers = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
    return version.major, version.minor, version.patch, not words, identifiers


def parse(text: str) -> SemanticVersion:
    """Parse a version in canonical form: three numbers without leading zeros, then optional prerelease and build metadata.

    Raises:
        ValueError: the text has another form.
    """
    match = _CANONICAL.match(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a semantic version (expected such as 1.2.3 or 1.2.3-rc.1)")
    numbers = [int(match[i]) for i in (1, 2, 3)]
    prerelease = match[4] or ""
    if max(*numbers, *(int(word) for word in prerelease.split(".") if word.isdigit()), 0) > _UINT64_MAX:
        raise ValueError(f"{text[:60]!r} has a number that does not fit 64 bits")
    return SemanticVersion(numbers[0], numbers[1], numbers[2], prerelease)


def parse_normalised(text: str) -> SemanticVersion:
    """Parse a version after removing one ``v`` and leading zeros, and after adding missing minor and patch versions of 0.

    Raises:
        ValueError: the result is not a version, or a short version has prerelease or build metadata.
    """
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError(f"{text[:60]!r} is short and has prerelease or build metadata")
    return parse(".".join(parts + ["0"] * (3 - len(parts))))


def _without_leading_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
