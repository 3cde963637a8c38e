"""``--help`` with options in groups: first those of one command, then shared ones by purpose."""

from __future__ import annotations

from typing import Any, Final

import click

from kubestow.commands.common.overwriting import refuse_overwriting
from kubestow.commands.naming import examples

#: Heading of the options that are not in a shared group.
OWN_GROUP: Final = "Options"
#: Shared options by group: names of click parameters, in the order of ``--help``.
_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    OWN_GROUP: (),
    "Manifests and what-if": (
        "manifests", "namespace", "allow_unknown_fields", "partial", "gates", "addNodes", "buy", "catalogue", "removeNodes",
        "removeDomains", "requests", "replicas",
    ),
    "Rules and preferences": (
        "kubernetes_version", "feature_gates", "policy_file", "strategy", "shorthand", "daemon_namespaces", "include_gated",
    ),
    "Search": ("time_limit", "engine", "seed", "deterministic", "workers"),
    "Cluster": ("context", "kubeconfig", "kubectl", "save_snapshot"),
    "Input": ("max_input", "workload_kinds", "strict"),
    "Output": ("output", "form", "forms", "everything", "quiet", "verbose", "help"),
}  # fmt: skip


class GroupedCommand(click.Command):
    """A command that refuses to overwrite its inputs, shows its options in groups, and gives an example for a missing one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. If an option or its value is missing, the error has an example that fits the snapshot."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            example = examples.example(error.param.opts[0], words) if error.param is not None and not ctx.resilient_parsing else ""
            raise click.UsageError(error.format_message() + example, ctx) if example else error from None
        except click.BadOptionUsage as error:
            raise click.BadOptionUsage(error.option_name, error.message + examples.example(error.option_name, words), ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Refuse if an output file is also an input file."""
        refuse_overwriting(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list for each group that is not empty."""
        for group, records in grouped(self, ctx).items():
            with formatter.section(group):
                formatter.write_dl(records)


def grouped(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the help records (names and text) of a command's options by group; empty groups are left out."""
    group_of = {name: group for group, names in _GROUPS.items() for name in names}
    listed: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            name = "help" if "--help" in parameter.opts else parameter.name or ""
            listed[group_of.get(name, OWN_GROUP)].append(record)
    return {group: records for group, records in listed.items() if records}


def write_summaries(commands: dict[str, click.Command], formatter: click.HelpFormatter) -> None:
    """Write each command with the first paragraph of its help, uncut."""
    paragraphs = {name: (command.help or "").split("\n\n")[0] for name, command in commands.items()}
    with formatter.section("Commands"):
        formatter.write_dl([(name, " ".join(text.split())) for name, text in paragraphs.items()])
