"""The command line: one group whose commands are in :mod:`kubestow.commands`, and what becomes of errors and ^C.

Nothing heavy is imported at module level, so that ``--help`` and shell completion answer at once.
"""

from __future__ import annotations

import os
import signal
import sys

# Run as a file (`python cli.py`): this folder is the package kubestow, whatever is installed.
if not __package__:
    import importlib.util

    _HOME = os.path.dirname(os.path.abspath(__file__))
    _SPEC = importlib.util.spec_from_file_location("kubestow", os.path.join(_HOME, "__init__.py"), submodule_search_locations=[_HOME])
    assert _SPEC is not None
    assert _SPEC.loader is not None
    sys.modules["kubestow"] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules["kubestow"])

# ^C before a command runs: there is nothing to be saved, and nobody yet who could turn it into one line. Not where another program
# imports this one.
_CALLED = os.path.basename((sys.argv or [""])[0])
_EARLY = signal.getsignal(signal.SIGINT) is signal.default_int_handler and _CALLED in ("kubestow", "kubectl-stow", "cli.py", "__main__.py")
if _EARLY:
    try:  # noqa: SIM105 (contextlib is among what is still to be read)
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    except ValueError:
        pass  # not the main thread: signals are another's business

import contextlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import FrameType
from typing import Any, cast

import click

from kubestow.commands import VERSION
from kubestow.commands.common.cluster.choice import PLUGIN
from kubestow.commands.common.exit_codes import INTERRUPTED, OUTSIDE, fail, say, why_not
from kubestow.commands.common.help_text import write_summaries
from kubestow.commands.common.interrupts import Aborted

# Large arrays mostly hold few numbers: with pages of 2 MiB they take memory that nobody writes to, and such a page takes up to 5 ms.
# See https://numpy.org/doc/stable/reference/global_state.html.
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")

#: Set by the scripts of ``kubestow completion``: :data:`kubestow.commands.completion.shells.VARIABLE`.
_COMPLETE = "_KUBESTOW_COMPLETE"
#: Commands that are not in a module of their name.
_ELSEWHERE = {
    "batch": "kubestow.commands.batch.command",
    "completion": "kubestow.commands.completion.command",
    "doctor": "kubestow.commands.doctor.command",
}


class _Commands(Mapping[str, click.Command]):
    """The commands by name, each in a module of its name, which is read when the command is asked for."""

    _names = (
        "solve", "fit", "size", "survive", "upgrade", "rebalance", "apply", "verify", "explain", "audit", "check", "batch", "nodes",
        "report", "generate", "capture", "completion", "doctor",
    )  # fmt: skip

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._names:
            raise KeyError(name)
        return cast(click.Command, getattr(import_module(_ELSEWHERE.get(name, f"kubestow.commands.{name}")), name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """^C. While modules are read nothing is written yet, and not all of them bear an exception in their middle: that ends at once."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            with contextlib.suppress(OSError):
                os.write(2, b"kubestow: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _answer_interrupts(how: Any) -> None:
    """Answer ^C so from now on, where the signals are ours."""
    if _EARLY:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, how)


class _Group(click.Group):
    """Turns what can go wrong outside our hands into one line and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # Also when started as a file: completion scripts and usage lines need the installed name, which may be a link to another file.
        kwargs.setdefault("prog_name", PLUGIN if _CALLED == "kubectl-stow" else "kubestow")
        kwargs.setdefault("complete_var", _COMPLETE)
        if (shell := os.environ.get(_COMPLETE)) and "_" not in shell:  # else click's own scripts ask
            from kubestow.commands.completion.answer import answer

            answer(self, kwargs["prog_name"], shell)
        return super().main(*args, **kwargs)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_summaries({name: self.commands[name] for name in self.list_commands(ctx)}, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            _answer_interrupts(_interrupt)
            return super().invoke(ctx)
        except Aborted:
            say("kubestow: aborted")
            # The solver's thread is still at work, and an orderly exit would wait for it.
            os._exit(INTERRUPTED)
        except KeyboardInterrupt:
            fail(["interrupted"], INTERRUPTED)
        except BrokenPipeError:
            fail([])
        except OUTSIDE as error:
            fail([why_not(error)])
        finally:
            _answer_interrupts(signal.SIG_IGN)  # all is said and done: one more ^C must not be the command's end


@click.group(cls=_Group, commands=cast(Any, _Commands()), context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(VERSION, prog_name="kubestow")
def main() -> None:
    """Offline placement optimiser for Kubernetes.

    Reads a snapshot of a cluster and decides for all pods at once which node each goes to, under exactly the rules of
    kube-scheduler, with a proof of how good the answer is.

    A SNAPSHOT is a file (JSON or YAML, also .gz) of Kubernetes objects, a directory of such files, or - for standard input;
    several are merged.
    """


def plugin() -> None:
    """Run as ``kubectl stow``, the plugin of kubectl."""
    main(prog_name=PLUGIN)


def complete_plugin() -> None:
    """Tell kubectl, which asks the program kubectl_complete-stow, what completes ``kubectl stow``."""
    from kubestow.commands.completion.answer import answer

    answer(main, PLUGIN, "kubectl")


if __name__ == "__main__":
    main()
