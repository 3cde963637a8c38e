"""Findings in the formats of pipelines."""

from __future__ import annotations

from kubestow.report.writers import WrittenResult, writer

_KINDS = ("Audit", "Check")


@writer("junit", kinds=_KINDS, page="ci.md")
def junit(result: WrittenResult) -> bytes:
    """Return test cases of JUnit."""
    from kubestow.report.findings.junit import junit as text

    return text(result.findings)


@writer("sarif", kinds=_KINDS, page="ci.md")
def sarif(result: WrittenResult) -> bytes:
    """Return a log of SARIF."""
    from kubestow.report.findings.sarif import sarif as text

    return text(result.findings, result.version)


@writer("github", kinds=_KINDS, page="ci.md")
def github(result: WrittenResult) -> bytes:
    """Return workflow commands of GitHub Actions."""
    from kubestow.report.findings.github import github as text

    return text(result.findings)


@writer("gitlab", kinds=_KINDS, page="ci.md")
def gitlab(result: WrittenResult) -> bytes:
    """Return a code quality report of GitLab."""
    from kubestow.report.findings.gitlab import gitlab as text

    return text(result.findings)
