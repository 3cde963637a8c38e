"""Findings in the formats of CI pipelines: SARIF, JUnit, GitHub annotations, and GitLab Code Quality.

Enter at the module of a format, with the outcomes that :mod:`kubestow.report.findings.outcomes` derives from an
Audit or a Check.
"""
