"""JSON and YAML documents, their JSON Schemas, and output to files and standard output.

Enter at :mod:`kubestow.report.documents.results` and :mod:`kubestow.report.documents.output`. The package may
import ``models`` and the types of answers in ``kubestow.solver.explain``.
"""
