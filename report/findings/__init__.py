"""What was found, in the formats of pipelines: SARIF, JUnit, annotations of GitHub, Code Quality of GitLab.

Enter at the module of a format, with what :mod:`kubestow.report.findings.outcomes` makes of an Audit or a Check.
"""
