"""JSON and YAML documents, their JSON Schemas, and writing to files and standard output. Enter at :mod:`report.documents.results` and
:mod:`report.documents.output`. May import ``models`` and the types of answers in ``solver.explain``."""
