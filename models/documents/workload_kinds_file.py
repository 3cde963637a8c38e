"""The file of ``--workload-kinds``: workload kinds of users, in the form of the built-in table."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.custom_workloads import table
from kubestow.models.documents import settings_file
from kubestow.models.snapshot.snapshot import InputError


def use(paths: Sequence[str]) -> None:
    """Read workload kinds from files and add them to the table.

    Raises:
        InputError: A file cannot be read, has an unknown field, or an expression, path or pattern that cannot be used.
    """
    problems: list[str] = []
    for path in paths:
        try:
            table.add(table.read(settings_file.document(path, table.WorkloadKinds.__name__), path))
        except table.TableError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
