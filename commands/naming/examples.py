"""An example for an option without a value, which fits the snapshot on the command line: its zones, its pools, its pending pods."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubestow.commands.naming.names import CompletionNames

#: Maximum size in bytes of the files that are read for an example, so that an error needs no more than a moment.
_MAX_BYTES: Final = 20_000_000
#: The same for YAML, which is slower to read.
_MAX_YAML_BYTES: Final = 500_000
_MAX_SHOWN: Final = 3
_ZONE: Final = "topology.kubernetes.io/zone"
#: Endings of the labels by which providers and autoscalers name the pool of a node, and then of labels that most pools have.
_POOL_ENDINGS: Final = ("nodepool", "node-pool", "nodegroup", "node-group", "agentpool", "pool", "instance-type")


def example(option: str, words: Iterable[str]) -> str:
    """Return the sentence with an example for an option, or an empty text if the option has none.

    Args:
        option: The option with its dashes.
        words: The words of the command line. Those that name files may be the snapshot.
    """
    make = _MADE.get(option)
    if make is None:
        return ""
    paths = [word for word in words if _is_quick(word)]
    return f"  For example: {option} {make(paths)}"


def _is_quick(word: str) -> bool:
    """Return True if a word names a file that is read in a moment."""
    try:
        size = os.path.getsize(word) if os.path.isfile(word) else _MAX_BYTES
    except (OSError, ValueError):
        return False
    return size < (_MAX_YAML_BYTES if word.endswith((".yaml", ".yml")) else _MAX_BYTES)


def _read(paths: Sequence[str]) -> CompletionNames:
    from kubestow.commands.naming.names import read

    return read(paths)


def _values(names: CompletionNames, key: str) -> list[str]:
    return [label.partition("=")[2] for label in names.labels if label.partition("=")[0] == key]


def _some(values: Sequence[str]) -> str:
    return ", ".join([*values[:_MAX_SHOWN], *(["..."] if len(values) > _MAX_SHOWN else [])])


def _fail(paths: Sequence[str]) -> str:
    zones = _values(_read(paths), _ZONE)
    return f"zone (zones {_some(zones)}), or node" if len(zones) > 1 else "node (each node of the snapshot)"


def _pool(paths: Sequence[str]) -> str:
    names = _read(paths)
    for ending in _POOL_ENDINGS:
        for key in names.label_keys():
            if key.rpartition("/")[2] == ending or key.endswith(f"-{ending}"):
                values = _values(names, key)
                return f"{key}={values[0]}" + (f" (also {_some(values[1:])})" if values[1:] else "")
    first = next(iter(names.nodes), "NODE")
    return f"kubernetes.io/hostname={first}"


def _goal(paths: Sequence[str]) -> str:
    from kubestow.commands.naming.names import pending

    count = pending(paths)
    if not count:
        return "consolidate, which frees nodes; or repair, improve, admit"
    return f"admit, which makes room for {count} pending pod{'' if count == 1 else 's'}; or repair, improve, consolidate"


def _catalogue(paths: Sequence[str]) -> str:
    zones = _values(_read(paths), _ZONE) or ["a"]
    shape = f"{{name: small, allocatable: {{cpu: 4, memory: 16Gi, pods: 110}}, zones: [{', '.join(zones)}], price: 0.2}}"
    return f"FILE, a file with {{shapes: [{shape}]}}"


_MADE: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "--fail": _fail,
    "--pool": _pool,
    "--goal": _goal,
    "--catalogue": _catalogue,
}
