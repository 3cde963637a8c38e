"""The texts that a snapshot is read from: one for each file, and one for each file in an archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.texts import archives, bundles, exports


class Text(NamedTuple):
    """One file of the input.

    Attributes:
        path: Its path; in an archive the path of the archive, a slash, and the name in it.
        label: Its name in messages.
        group: The directory or archive in which it was found; None for a file named directly.
        data: Its content, decompressed, as UTF-8.
        as_json: True if it is read as JSON.
    """

    path: str
    label: str
    group: str | None
    data: bytes
    as_json: bool


def texts(paths: Sequence[str], report: sources.Report) -> Iterator[Text]:
    """Yield the texts of files, directories, archives and ``-`` (standard input), in the order of ``paths``.

    Logs in dumps are left out, and exports of other tools are rewritten as lists of objects.

    Args:
        paths: As on the command line.
        report: Called with path and message for what cannot be read.
    """
    for path, directory in sources.files(paths, report):
        try:
            data = sources.read(path)
        except ValueError as error:
            report(sources.label(path), str(error))
            continue
        if sources.is_archive(data):
            for name, content in archives.members(data, sources.label(path), report):
                yield _text(name, name, sources.label(path), content)
        else:
            yield _text(path, sources.label(path), directory, data)


def _text(path: str, label: str, group: str | None, data: bytes) -> Text:
    data = exports.without_logs(data)
    as_json = bundles.reads_as_json(data, label)
    return Text(path, label, group, exports.of_simulator(data) if as_json else data, as_json)
