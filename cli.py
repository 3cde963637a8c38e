"""The command line: a click group whose commands are in :mod:`kubestow.commands`, and its handling of errors and ^C.

No slow module is imported at module level, so that ``--help`` and shell completion answer at once.
"""

from __future__ import annotations

import os
import signal
import sys

# When run as a file (`python cli.py`), this folder is the package kubestow, even if another version is installed.
if not __package__:
    import importlib.util

    _HOME = os.path.dirname(os.path.abspath(__file__))
    _SPEC = importlib.util.spec_from_file_location("kubestow", os.path.join(_HOME, "__init__.py"), submodule_search_locations=[_HOME])
    assert _SPEC is not None
    assert _SPEC.loader is not None
    sys.modules["kubestow"] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules["kubestow"])

# Exit immediately on ^C before a command runs: there is nothing to save, and no handler yet that could print one line. Leave the signal
# alone if another program imports this module.
_PROGRAM = os.path.basename((sys.argv or [""])[0])
_OWNS_SIGNALS = signal.getsignal(signal.SIGINT) is signal.default_int_handler and _PROGRAM in (
    "kubestow",
    "kubectl-stow",
    "cli.py",
    "__main__.py",
)
if _OWNS_SIGNALS:
    try:  # noqa: SIM105 (contextlib is not imported yet)
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    except ValueError:
        pass  # not the main thread, which alone can handle signals

import contextlib
from types import FrameType
from typing import Any, cast

import click

from kubestow.commands import COMMANDS, VERSION
from kubestow.commands.common.cluster_choice import PLUGIN
from kubestow.commands.common.exit_codes import INTERRUPTED, OUTSIDE, Aborted, fail, say, why_not
from kubestow.commands.common.help_text import write_summaries

# Large arrays are mostly sparse. Pages of 2 MiB would reserve unused memory, and each takes up to 5 ms.
# See https://numpy.org/doc/stable/reference/global_state.html.
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")

#: Environment variable that completion scripts set; see :data:`kubestow.commands.completion.shells.VARIABLE`.
_COMPLETE = "_KUBESTOW_COMPLETE"


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handle ^C. Exit immediately during an import, because some modules do not tolerate an exception while they are imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            with contextlib.suppress(OSError):
                os.write(2, b"kubestow: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _answer_interrupts(how: Any) -> None:
    """Set the handler of ^C if this program owns the signals."""
    if _OWNS_SIGNALS:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, how)


def _complete(group: click.Group, program: str, shell: str) -> None:
    """Print the completions of the line of a shell, and end the process."""
    from kubestow.commands.completion.answer import answer

    answer(group, program, shell)


class _Group(click.Group):
    """A command group that reports external errors as one line with an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # Completion scripts and usage lines need the installed name, which can be a link to another file.
        kwargs.setdefault("prog_name", PLUGIN if _PROGRAM == "kubectl-stow" else "kubestow")
        kwargs.setdefault("complete_var", _COMPLETE)
        if (shell := os.environ.get(_COMPLETE)) and "_" not in shell:  # otherwise the request comes from click's own scripts
            _complete(self, kwargs["prog_name"], shell)
        return super().main(*args, **kwargs)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_summaries({name: self.commands[name] for name in self.list_commands(ctx)}, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            _answer_interrupts(_interrupt)
            return super().invoke(ctx)
        except Aborted:
            say("kubestow: aborted")
            # The solver's thread is still running, and an orderly exit would wait for it.
            os._exit(INTERRUPTED)
        except KeyboardInterrupt:
            fail(["interrupted"], INTERRUPTED)
        except BrokenPipeError:
            fail([])
        except OUTSIDE as error:
            fail([why_not(error)])
        finally:
            _answer_interrupts(signal.SIG_IGN)  # output is complete: another ^C must not change the exit code


@click.group(cls=_Group, commands=cast(Any, COMMANDS), context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(VERSION, prog_name="kubestow")
def main() -> None:
    """Offline placement optimiser for Kubernetes.

    Computes a placement of all pending pods of a cluster snapshot together, under exactly the rules of kube-scheduler, with a
    proved bound on its quality.

    A SNAPSHOT is a file of Kubernetes objects (JSON or YAML, also .gz), a directory of such files, or - for standard input.
    Several snapshots are merged.
    """


def plugin() -> None:
    """Run as the kubectl plugin ``kubectl stow``."""
    main(prog_name=PLUGIN)


def complete_plugin() -> None:
    """Print the completions of ``kubectl stow`` for kubectl, which calls the program kubectl_complete-stow."""
    _complete(main, PLUGIN, "kubectl")


if __name__ == "__main__":
    main()
