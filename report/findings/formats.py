"""Pipeline formats, by their names for the option ``-f``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from kubestow.report.findings.github import github
from kubestow.report.findings.gitlab import gitlab
from kubestow.report.findings.junit import junit
from kubestow.report.findings.outcomes import Report
from kubestow.report.findings.sarif import sarif


def formats(make: Callable[[], Report], version: str) -> dict[str, Callable[[], bytes]]:
    """Return the writer of each format.

    Args:
        make: Returns the report. It is called once, and only if something is written.
        version: Version of kubestow.
    """
    made = cache(make)
    writers: dict[str, Callable[[Report], bytes]] = {
        "junit": junit,
        "sarif": partial(sarif, version=version),
        "github": github,
        "gitlab": gitlab,
    }
    # mypy infers no type for a lambda that binds a loop variable as a default
    return {name: lambda write=write: write(made()) for name, write in writers.items()}  # type: ignore[misc]
