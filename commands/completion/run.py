"""The work of ``kubestow completion``."""

from __future__ import annotations

from typing import NoReturn

import click

from kubestow.commands.common.cluster_choice import PLUGIN
from kubestow.commands.common.exit_codes import DONE
from kubestow.commands.completion import CompletionRequest, shells
from kubestow.commands.running import raw_output


def run(request: CompletionRequest) -> NoReturn:
    """Write the script."""
    plugin = click.get_current_context().find_root().info_name == PLUGIN or request.shell == "kubectl"
    script = shells.source(request.shell, "kubectl-stow" if plugin else "kubestow")
    raw_output.write(request.streams, [script.encode()])
    raise click.exceptions.Exit(DONE)
