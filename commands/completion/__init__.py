"""``kubestow completion``: print a shell completion script; and the candidates at each TAB.

Start at :func:`kubestow.commands.completion.answer.answer`. Nothing there prints errors, because the shell would show them in the middle of
the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

from kubestow.commands.common import options
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, requested

#: :data:`kubestow.commands.completion.shells.SHELLS`, and kubectl, which runs a program on the PATH.
_SHELLS = ("bash", "zsh", "fish", "kubectl")


@dataclass(frozen=True)
class CompletionRequest:
    """The options of ``kubestow completion``."""

    streams: Streams
    shell: str


@click.command(cls=GroupedCommand)
@click.argument("shell", type=click.Choice(_SHELLS))
@options.output_file("Write the script to FILE")
@requested(CompletionRequest, streams=Streams)
def completion(request: CompletionRequest) -> None:
    """Print a shell script that completes commands, options and the names in a snapshot.

    bash: add eval "$(kubestow completion bash)" to ~/.bashrc. zsh: add eval "$(kubestow completion zsh)" to ~/.zshrc, after compinit. fish:
    add kubestow completion fish | source to ~/.config/fish/config.fish.

    kubectl: print the program kubectl_complete-stow, which kubectl (1.26 and later) runs to complete `kubectl stow`. Put it on the PATH.
    The Python package installs it; krew does not.
    """
    request.streams.check()
    from kubestow.commands.completion.run import run

    run(request)
