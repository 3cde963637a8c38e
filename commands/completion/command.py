"""``kubestow completion``: the script that makes a shell complete."""

from __future__ import annotations

import click

from kubestow.commands.common import options
from kubestow.commands.common.cluster.choice import PLUGIN
from kubestow.commands.common.exit_codes import DONE
from kubestow.commands.common.help_text import Command
from kubestow.commands.common.options import Streams, bundled

#: :data:`kubestow.commands.completion.shells.SHELLS`, and kubectl, which asks a program on the PATH.
_SHELLS = ("bash", "zsh", "fish", "kubectl")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS))
@options.output_file("Write the script to FILE")
@bundled(streams=Streams)
def completion(streams: Streams, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, and what a snapshot holds.

    In ~/.bashrc: eval "$(kubestow completion bash)". In ~/.zshrc, after compinit: eval "$(kubestow completion zsh)". In
    ~/.config/fish/config.fish: kubestow completion fish | source.

    For kubectl: the program kubectl_complete-stow, which kubectl (1.26 and later) asks when `kubectl stow` is completed. It belongs on the
    PATH, and packages of Python bring it; krew links one program only.
    """
    streams.check()
    from kubestow.commands.common import output
    from kubestow.commands.completion import shells

    plugin = click.get_current_context().find_root().info_name == PLUGIN or shell == "kubectl"
    script = shells.source(shell, "kubectl-stow" if plugin else "kubestow")
    output.write(streams, [script.encode()])
    raise click.exceptions.Exit(DONE)
