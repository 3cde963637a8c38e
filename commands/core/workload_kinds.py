"""The file of ``--workload-kinds``: workload kinds of users, in the form of the built-in table."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.custom_workloads import table
from kubestow.models.custom_workloads.table import KindEntry
from kubestow.models.documents import settings_file
from kubestow.models.snapshot.snapshot import InputError


def read(paths: Sequence[str]) -> list[KindEntry]:
    """Return the workload kinds in files.

    Raises:
        InputError: A file cannot be read, has an unknown field, or an expression, path or pattern that cannot be used.
    """
    problems: list[str] = []
    found: list[KindEntry] = []
    for path in paths:
        try:
            found += table.read(settings_file.document(path, table.WorkloadKinds.__name__), path)
        except table.TableError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found
