"""The start of the program: whether it finds its own packages, whose names are common, so that another distribution's may be in the way.

Nothing else has a name that no other distribution uses, so this module imports none of the packages before it has looked at them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import import_module
from typing import Final

#: How the first line of each package's ``__init__.py`` begins, and that of ``cli.py``.
OWN: Final = {
    "audit": '"""Findings about a cluster',
    "checker": '"""The independent checker',
    "cli": '"""The command line: one group',
    "commands": '"""The commands, one a module',
    "instances": '"""Example files, and in',
    "live": '"""Whatever talks to a cluster',
    "models": '"""The input as objects',
    "report": '"""Everything that people and programs read',
    "solver": '"""How placements, rollouts and plans',
}

#: Large arrays mostly hold few numbers: with pages of 2 MiB they take memory that nobody writes to, and such a page takes up to 5 ms.
#: See https://numpy.org/doc/stable/reference/global_state.html.
HUGE_PAGES: Final = "0"


def problem() -> str | None:
    """Return in one line which package of another distribution is in the way, None if there is none.

    In one folder of installed packages the files of one distribution replace those of the other, so that a package in the right place may
    still be another's.
    """
    home = os.path.dirname(os.path.abspath(__file__))
    for name, begins in OWN.items():
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        where = found.origin if found is not None else None
        expected = os.path.join(home, f"{name}.py" if name == "cli" else os.path.join(name, "__init__.py"))
        if where is None:
            return f"the package `{name}` is not beside {home}: install kubestow again, in a venv of its own, e.g. with pipx"
        if os.path.abspath(where) != expected or not _begins(where, begins):
            return f"another distribution's package `{name}` is in the way ({where}): install kubestow in a venv of its own, e.g. with pipx"
    return None


def _begins(path: str, text: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(text.encode())) == text.encode()


def main() -> None:
    """Run ``kubestow``, or say in one line what keeps it from running."""
    _start("main")


def plugin() -> None:
    """Run ``kubectl stow``."""
    _start("plugin")


def complete_plugin() -> None:
    """Complete a line of ``kubectl stow``."""
    _start("complete_plugin")


def _start(name: str) -> None:
    if (wrong := problem()) is not None:
        print(f"kubestow: {wrong}", file=sys.stderr)
        sys.exit(1)
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", HUGE_PAGES)
    getattr(import_module("cli"), name)()
