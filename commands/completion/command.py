"""``kubestow completion``: print a shell completion script."""

from __future__ import annotations

import click

from kubestow.commands.common import options
from kubestow.commands.common.cluster.choice import PLUGIN
from kubestow.commands.common.exit_codes import DONE
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, bundled

#: :data:`kubestow.commands.completion.shells.SHELLS`, and kubectl, which runs a program on the PATH.
_SHELLS = ("bash", "zsh", "fish", "kubectl")


@click.command(cls=GroupedCommand)
@click.argument("shell", type=click.Choice(_SHELLS))
@options.output_file("Write the script to FILE")
@bundled(streams=Streams)
def completion(streams: Streams, shell: str) -> None:
    """Print a shell script that completes commands, options and the names in a snapshot.

    bash: add eval "$(kubestow completion bash)" to ~/.bashrc. zsh: add eval "$(kubestow completion zsh)" to ~/.zshrc, after compinit. fish:
    add kubestow completion fish | source to ~/.config/fish/config.fish.

    kubectl: print the program kubectl_complete-stow, which kubectl (1.26 and later) runs to complete `kubectl stow`. Put it on the PATH.
    The Python package installs it; krew does not.
    """
    streams.check()
    from kubestow.commands.common import output
    from kubestow.commands.completion import shells

    plugin = click.get_current_context().find_root().info_name == PLUGIN or shell == "kubectl"
    script = shells.source(shell, "kubectl-stow" if plugin else "kubestow")
    output.write(streams, [script.encode()])
    raise click.exceptions.Exit(DONE)
