"""The files of a folder that a snapshot is read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.decode import JSON_ERRORS, head_of
from kubestow.models.snapshot.texts import bundles
from kubestow.models.snapshot.yaml_reader import YamlError, documents

#: API group of kubestow's own documents.
_OWN_GROUP: Final = "kubestow.dev/"


def read_paths(folder: str) -> Iterator[str]:
    """Yield the paths of the files in a folder that hold Kubernetes objects."""
    yield from (file.path for file in sources.files([folder], lambda *_: None) if not _is_result(file.path))


def _is_result(path: str) -> bool:
    """Return True if a file holds no Kubernetes objects: an earlier result, or values of a chart."""
    try:
        data = sources.read(path)
        as_json = bundles.reads_as_json(data, path)
        if bundles.is_stray(data, path, as_json=as_json):
            return True
        versions = [head_of(data).apiVersion] if as_json else [_version(each) for each in documents(data) if each is not None]
    except (ValueError, YamlError, *JSON_ERRORS):
        return False
    return all(isinstance(version, str) and version.startswith(_OWN_GROUP) for version in versions)


def _version(document: object) -> object:
    return document.get("apiVersion") if isinstance(document, Mapping) else None
