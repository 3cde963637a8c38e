"""The commands: one package each, found by its name, with its click command and the module ``run``.

The package declares the command (``kubestow.commands.solve.solve``): options, help, and checks of their combination. It imports only click,
the standard library and light parts of :mod:`kubestow.commands.common`, so that ``--help`` and completion stay fast. The command makes one
request of its options and hands it to ``run(request)`` of its module ``run``, which is imported then, and has every other import at its
top. A command may import everything except ``cli``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    import click

VERSION: Final = "0.1.0"
_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))


def _found() -> tuple[str, ...]:
    return tuple(name for name in sorted(os.listdir(_FOLDER)) if os.path.isfile(os.path.join(_FOLDER, name, "run.py")))


class Commands(Mapping[str, "click.Command"]):
    """The commands by name: all packages with a module ``run``. A package is imported on first access."""

    def __init__(self) -> None:
        self._names = _found()

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._names:
            raise KeyError(name)
        return cast("click.Command", getattr(import_module(f"{__name__}.{name}"), name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


COMMANDS: Final = Commands()
