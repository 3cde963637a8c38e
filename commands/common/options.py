"""Options that several commands share, and the dataclasses that carry them to a command."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import cluster_choice, version_options
from kubestow.commands.common.cluster_choice import ClusterChoice
from kubestow.commands.common.exit_codes import fail, refuse
from kubestow.commands.common.option_values import OutputFormat, listed, output_path, parsed, positive
from kubestow.commands.core.wrong_use import WrongUse
from kubestow.commands.naming import examples
from kubestow.models.input_error import InputError
from kubestow.report.writers import writers_of

#: A function that adds an option to a command.
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

#: A file, or - for standard input or output. click must not check it: an unreadable file is bad input (exit 1), not wrong usage (exit 2).
FILE = click.Path(allow_dash=True, readable=False)
#: An input file; - does not mean standard input here.
READ = click.Path(readable=False)
SEED = click.IntRange(0, 2**31 - 1)


# --- bundles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputTarget:
    """Destination and form of a result.

    Attributes:
        form: The format; None for the default one.
        file: The path; None or - for standard output.
    """

    form: str | None
    file: str | None

    @property
    def printed(self) -> bool:
        """True if the result goes to standard output."""
        return self.file in (None, "-")


@dataclass(frozen=True)
class Streams:
    """Inputs and outputs of a command, and its verbosity.

    Attributes:
        snapshots: Paths of the snapshot's files.
        cluster: The cluster to capture instead of reading ``snapshots``.
        manifests: Paths of ``-w``.
        result: Path of the document to read.
        output: Path of ``-o``.
        forms: Values of ``-f``, each a format and a file or None.
        everything: True for tables without omissions.
        quiet: True for errors only.
        verbose: True for all warnings and progress lines.
        strict: True to refuse input that is not modelled.
        allow_unknown_fields: True to ignore unknown fields of manifests.
        kubernetes_version: The version whose rules apply; None to detect it.
        feature_gates: Overrides of feature gates, each a name and a value.
    """

    snapshots: tuple[str, ...] = ()
    cluster: ClusterChoice | None = None
    manifests: tuple[str, ...] = ()
    result: str | None = None
    output: str | None = None
    forms: tuple[tuple[str, str | None], ...] = ()
    everything: bool = False
    quiet: bool = False
    verbose: bool = False
    strict: bool = False
    allow_unknown_fields: bool = False
    kubernetes_version: str | None = None
    feature_gates: tuple[tuple[str, bool], ...] = ()

    @property
    def targets(self) -> list[OutputTarget]:
        """The destinations of the result: the files of -f, and -o or standard output for the form without a file.

        If every -f names a file and there is no -o, nothing goes to standard output.
        """
        named = [OutputTarget(form, self.output if file is None else file) for form, file in self.forms]
        all_to_files = not self.forms or (self.output is not None and all(file is not None for _, file in self.forms))
        return [*named, OutputTarget(None, self.output)] if all_to_files else named

    def wants(self, form: str) -> bool:
        """Return True if -f requests this form."""
        return any(form == name for name, _ in self.forms)

    def check(self, *more: str | None) -> None:
        """Refuse contradictory or unwritable files before a long run. ``more`` lists further input files."""
        refuse([*self.snapshots, *self.manifests, self.result, *more].count("-") > 1, "only one of the inputs can be standard input")
        refuse(self.quiet and self.verbose, "-q and -v contradict each other")
        refuse(
            [file for _, file in self.forms].count(None) > 1,
            "one form can go to -o or standard output; the others need a file: -f FORMAT=FILE",
        )
        refuse(sum(target.printed for target in self.targets) > 1, "only one form can go to standard output")
        files = [str(target.file) for target in self.targets if not target.printed]
        files += [self.cluster.save] if self.cluster is not None and self.cluster.save is not None else []
        for file in files:
            from kubestow.report.documents.output import check_target

            check_target(file)
        places = [place for file in files if not os.path.exists(place := os.path.realpath(file)) or os.path.isfile(place)]
        refuse(len(set(places)) < len(places), "each form needs a file of its own: one is named twice by -f, -o or --save-snapshot")


@dataclass(frozen=True)
class SearchChoices:
    """Engine, time limit and reproducibility of a search (:class:`kubestow.solver.runtime.options.Options`)."""

    time_limit: float
    seed: int
    deterministic: bool
    workers: int | None
    engine: Any = "auto"
    from_scratch: bool = False


@dataclass(frozen=True)
class PolicyChoices:
    """The policy file, its overrides on the command line, and which pods count as pending."""

    policy_file: str | None = None
    shorthand: Any = None
    strategy: Any = None
    include_gated: bool = False
    daemon_namespaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerChoices:
    """The workers that share one search: a number of processes, or a Dask scheduler."""

    jobs: int | None = None
    dask: str | None = None


def requested(request: type[Any], **bundles: type[Any]) -> Decorator:
    """Pass all options to a command as one dataclass. Bad input ends the command with a line for each problem.

    Args:
        request: The dataclass. It has a field for each option, except those in bundles.
        bundles: Fields of the request that are dataclasses themselves: each takes the options that have the names of its fields. A field of
            type dict takes all options that belong to no other field.
    """
    own = {field.name for field in dataclasses.fields(request)}
    fields = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in bundles.items() if kind is not dict}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            made = {name: bundles[name](**{key: given.pop(key) for key in names & given.keys()}) for name, names in fields.items()}
            made |= {name: given.pop(name) for name in own & given.keys()}
            others = {name: given for name, kind in bundles.items() if kind is dict}
            try:
                command(request(**made, **(others or given)))
            except InputError as error:
                fail(error.problems)
            except WrongUse as error:
                example = examples.example(error.missing, getattr(made.get("streams"), "snapshots", ()))
                raise click.UsageError(f"{error.contradictions[0]}.{example}" if example else error.contradictions[0]) from None

        return call

    return decorate


def on_terminal() -> bool:
    """Return True if standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


# --- options ----------------------------------------------------------------------------------------------------------


def in_order(*options: Decorator) -> Decorator:
    """Combine several options into one decorator; ``--help`` lists them in this order."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


#: Snapshot files only. A result belongs to one snapshot, so a new capture cannot replace it.
snapshot_files: Decorator = click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, required=True, type=FILE)
#: Snapshot files, or the options of a cluster to capture.
snapshots: Decorator = cluster_choice.snapshots


def output_file(text: str) -> Decorator:
    """Return the option -o."""
    return click.option(
        "-o", "--output", metavar="FILE", type=FILE, callback=output_path, help=f"{text}; a failed run leaves the file as it was."
    )


def output(*formats: str) -> Decorator:
    """Return the options -o, and -f with these formats."""
    text = "Output format, optionally with a file for it; repeatable.  [default: table on a terminal, else json]"
    form = click.option("-f", "--format", "forms", multiple=True, type=OutputFormat(formats), help=text)
    return in_order(output_file("Write the result to FILE"), form)


everything: Decorator = click.option("--all", "everything", is_flag=True, help="Show every row and name in tables.")


def output_of(kind: str = "") -> Decorator:
    """Return the options -o, and -f with the formats of tables and those of a kind of document."""
    return output(*dict.fromkeys(("table", "wide", "csv", "json", "yaml", *writers_of(kind))))


def table_output(kind: str = "") -> Decorator:
    """Return the options of :func:`output_of`, and --all."""
    return in_order(output_of(kind), everything)


def manifests(
    *names: str,
    text: str = "Add the pods of these manifests, each PodTemplate as a gang (all or none); repeatable.",
    required: bool = False,
) -> Decorator:
    """Return the option for manifests, under these names, and --allow-unknown-fields."""
    unknown = "Ignore unknown fields in manifests instead of refusing them."
    return in_order(
        click.option(*names, "manifests", multiple=True, required=required, metavar="FILE", type=FILE, help=text),
        click.option("--allow-unknown-fields", is_flag=True, help=unknown),
    )


def result_file(text: str, *, required: bool = False) -> Decorator:
    """Return the option --result."""
    return click.option("--result", required=required, metavar="FILE", type=FILE, help=text)


def time_limit(default: float, text: str) -> Decorator:
    """Return the option --time-limit."""
    return click.option("--time-limit", type=float, callback=positive, default=default, metavar="SECONDS", help=text)


daemon_namespaces: Decorator = click.option(
    "--daemon-namespaces",
    callback=listed,
    metavar="NS,...",
    help="Exempt pods of these namespaces from required anti-affinity, in both directions.",
)

scope = in_order(click.option("--include-gated", is_flag=True, help="Treat pods with scheduling gates as pending."), daemon_namespaces)


def namespace_of(text: str) -> Decorator:
    """Return the option -n."""
    return click.option("-n", "--namespace", callback=parsed("namespace"), metavar="NAMESPACE", help=text)


namespace: Decorator = namespace_of("Namespace of manifest objects that have none.  [default: default]")

requests: Decorator = click.option(
    "--requests",
    multiple=True,
    metavar="[RESOURCE=]FILE",
    help="Use requests recommended by krr, VerticalPodAutoscalers or Prometheus (cpu=FILE, memory=FILE); repeatable.",
)

#: What-if edits of nodes. Parameter names are those of the fields of :class:`kubestow.models.documents.placement.Edits`.
node_edits = in_order(
    click.option("--add-nodes", "addNodes", multiple=True, metavar="N:LIKE_NODE", help="Add N copies of an existing node; repeatable."),
    click.option("--buy", multiple=True, metavar="N:SHAPE@ZONE", help="Add N nodes of a shape of --catalogue in a zone; repeatable."),
    click.option("--remove-node", "removeNodes", multiple=True, metavar="NODE", help="Remove this node; repeatable."),
    click.option(
        "--remove-domain", "removeDomains", multiple=True, metavar="KEY=VALUE", help="Remove all nodes with this label; repeatable."
    ),
    requests,
)
#: What-if edits of nodes and of pods, without -n.
edits_in_namespace = in_order(
    click.option("--partial", is_flag=True, help="Allow part of a manifest's pods to be placed."),
    node_edits,
    click.option(
        "--replicas",
        multiple=True,
        metavar="NAME=N",
        help="Scale a workload, [KIND/][NAMESPACE/]NAME, of the manifests or the snapshot; repeatable.",
    ),
)
#: What-if edits of nodes and of pods.
edits = in_order(namespace, edits_in_namespace)


def catalogue(text: str) -> Decorator:
    """Return the option --catalogue."""
    return click.option("--catalogue", metavar="FILE", type=READ, help=f"Catalogue of node shapes and prices, {text}.")


policy = in_order(
    click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        type=READ,
        help="Policy file (YAML): weights of preferences, and how they are read.",
    ),
    click.option(
        "--shorthand",
        type=click.Choice(["directed", "symmetric"]),
        help="Read shorthand container affinity in one direction or in both.  [default: the policy's, else directed]",
    ),
)

_SCHEDULER_CONFIG = "KubeSchedulerConfiguration, or a ConfigMap with one: profiles, weights and arguments of the points."
scheduler_config: Decorator = click.option("--scheduler-config", metavar="FILE", type=READ, help=_SCHEDULER_CONFIG)

#: Options that make a search repeatable.
repeatable = in_order(
    click.option("--seed", type=SEED, default=0, metavar="N", help="Seed of the search."),
    click.option(
        "--deterministic", is_flag=True, help="Give the same bytes for the same input; the time limit counts deterministic seconds."
    ),
    click.option("--workers", type=click.IntRange(1, 1024), metavar="N", help="Number of parallel searches.  [default: one per core]"),
)

search = in_order(
    time_limit(60.0, "Time limit for the whole run."),
    click.option("--engine", type=click.Choice(["auto", "exact", "greedy", "lns"]), default="auto", help="Search engine."),
    repeatable,
)

workers = in_order(
    click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Number of processes that share the work.  [default: 1]"),
    click.option(
        "--dask", metavar="ADDRESS|local|FILE", help="Share the work among the workers of a Dask scheduler; local starts one here."
    ),
)

#: Options for the Kubernetes version and the feature gates whose rules apply.
versions = in_order(version_options.version, version_options.feature_gates)

strict: Decorator = click.option(
    "--strict", is_flag=True, help="Refuse input with anything that is not modelled or not taken into account (exit 4)."
)

max_input: Decorator = click.option(
    "--max-input",
    metavar="SIZE",
    callback=parsed("max_input"),
    expose_value=False,
    help="Refuse input files larger than this when unpacked: 500M, 2Gi, none.  [default: a quarter of the free memory]",
)


workload_kinds: Decorator = click.option(
    "--workload-kinds",
    multiple=True,
    metavar="FILE",
    type=FILE,
    callback=parsed("workload_kinds"),
    expose_value=False,
    help="Read objects of the kinds in this file as workloads, too; repeatable.",
)


def noise(
    quiet: str = "Print only errors on standard error.", verbose: str = "Print all warnings and progress on standard error."
) -> Decorator:
    """Return the options -q and -v."""
    verbosely = click.option("-v", "--verbose", is_flag=True, help=verbose)
    return in_order(click.option("-q", "--quiet", is_flag=True, help=quiet), verbosely)


#: Options of every command that judges a snapshot.
judged = in_order(versions, strict, max_input, workload_kinds, noise())
#: The same with a policy and --daemon-namespaces; and then also with --include-gated.
exempting = in_order(policy, daemon_namespaces, judged)
scoped = in_order(policy, scope, judged)
