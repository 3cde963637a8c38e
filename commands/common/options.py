"""Options that several commands have, and the bundles in which a command gets them."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import version_options
from kubestow.commands.common.cluster import choice
from kubestow.commands.common.cluster.choice import ClusterChoice
from kubestow.commands.common.exit_codes import refuse

#: Adds an option to a command.
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

#: A file, or - for standard input or output. One that may not be read is bad input (exit 1), not wrong usage, as click has it.
FILE = click.Path(allow_dash=True, readable=False)
#: A file that is read, never standard input.
READ = click.Path(readable=False)
SEED = click.IntRange(0, 2**31 - 1)
#: What kubectl takes after -o, and formats of our own.
_FORMS = frozenset(
    {"json", "yaml", "kyaml", "wide", "name", "csv", "table", "kubectl", "junit", "sarif", "github", "gitlab", "template", "templatefile"}
    | {f"{kind}{suffix}" for kind in ("jsonpath", "custom-columns", "go-template") for suffix in ("", "-file")}
    | {"jsonpath-as-json"}
)


# --- bundles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Where a result goes (standard output without a file), and in which form (the default one without)."""

    form: str | None
    file: str | None

    @property
    def printed(self) -> bool:
        """Return whether the result goes to standard output."""
        return self.file in (None, "-")


@dataclass(frozen=True)
class Streams:
    """What a command reads (files, or a cluster in their place), and by which version's rules; where it writes, and how much it says on
    standard error. ``forms``: of -f, as ``FORMAT[=FILE]`` has them."""

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
    def targets(self) -> list[Target]:
        """Return where the result goes: to the files of -f, and to -o or standard output in the form without a file. With files alone there
        is nothing on standard output."""
        named = [Target(form, self.output if file is None else file) for form, file in self.forms]
        rest = not self.forms or (self.output is not None and all(file is not None for _, file in self.forms))
        return [*named, Target(None, self.output)] if rest else named

    def wants(self, form: str) -> bool:
        """Return whether the result is asked for in this form."""
        return any(form == name for name, _ in self.forms)

    def check(self, *more: str | None) -> None:
        """Refuse, before a long run, files that cannot all be read or written; ``more``: files that are read besides."""
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
    """How to search and for how long (:class:`kubestow.solver.runtime.options.Options`)."""

    time_limit: float
    seed: int
    deterministic: bool
    workers: int | None
    engine: Any = "auto"
    from_scratch: bool = False


@dataclass(frozen=True)
class PolicyChoices:
    """The policy file, what the command line says instead, and which pods count."""

    policy_file: str | None = None
    shorthand: Any = None
    strategy: Any = None
    include_gated: bool = False
    daemon_namespaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerChoices:
    """Who shares the work of one question: so many processes, or the workers of a Dask scheduler."""

    jobs: int | None = None
    dask: str | None = None


def bundled(**bundles: type[Any]) -> Decorator:
    """Give a command its options as dataclasses: each of ``bundles`` takes the options that are called like its fields."""
    fields = {name: {field.name for field in dataclasses.fields(bundle)} for name, bundle in bundles.items()}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            made = {name: bundle(**{key: given.pop(key) for key in fields[name] & given.keys()}) for name, bundle in bundles.items()}
            command(**made, **given)

        return call

    return decorate


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


# --- values -----------------------------------------------------------------------------------------------------------


def positive(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Return a positive number of seconds, as a click callback."""
    if not 0 < value < float("inf"):
        raise click.BadParameter(f"{value} is not a positive number of seconds")
    return value


def listed(ctx: click.Context, param: click.Parameter, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that one or several options list, separated by commas, without repeats, as a click callback."""
    texts = [value] if isinstance(value, str) else value or ()
    names = tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",")))
    if not all(names):
        raise click.BadParameter("an empty name (expected names separated by commas)")
    return names


def size(ctx: click.Context, param: click.Parameter, value: str | None, or_else: str = "") -> int | None:
    """Return a size in bytes, as a click callback. ``or_else``: what it may be besides, for the message."""
    if value is None:
        return None
    from kubestow.models.kube.quantity import QuantityError, ceil, parse

    try:
        found = ceil(parse(value))
    except QuantityError:
        found = 0
    if found <= 0:
        raise click.BadParameter(f"{value!r} is no size (expected bytes such as 500M or 2Gi{or_else})", ctx, param)
    return found


def _bounded(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Bound what is read while the command runs."""
    if value is not None:
        limit = None if value == "none" else size(ctx, param, value, ", or none")
        from kubestow.models.snapshot.sources import at_most

        ctx.with_resource(at_most(limit))


def _target(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the file to write. kubectl's ``-o yaml`` chooses a form there, and would here write a file of that name, in silence."""
    word = (value or "").partition("=")[0]
    if word in _FORMS:
        forms = next((o.type.choices for o in ctx.command.params if isinstance(o.type, click.Choice) and o.name in ("form", "forms")), ())
        hint = (
            f"-f {word} chooses the form" if word in forms else f"-f chooses the form: {', '.join(forms)}" if forms else "the form is fixed"
        )
        raise click.UsageError(f"-o {word}: -o names the file to write; {hint} (a file of this name is ./{word})", ctx)
    return value


# --- options ----------------------------------------------------------------------------------------------------------


def in_order(*options: Decorator) -> Decorator:
    """Return one decorator for several options, which ``--help`` then lists in this order."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


#: Of a result, which no other capture is.
snapshot_files: Decorator = click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, required=True, type=FILE)
#: Or a cluster in their place.
snapshots: Decorator = choice.snapshots


def output_file(text: str) -> Decorator:
    """Return -o."""
    return click.option("-o", "--output", metavar="FILE", type=FILE, callback=_target, help=f"{text}, whole or not at all.")


class _Form(click.Choice[str]):
    """``FORMAT[=FILE]``, as a pair."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, equals, file = str(value).partition("=")
        if equals and not file:
            self.fail(f"{value!r} names no file (expected FORMAT or FORMAT=FILE)", param, ctx)
        return super().convert(name, param, ctx), file or None

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return f"{super().get_metavar(param, ctx)}[=FILE]"


def output(*formats: str) -> Decorator:
    """Return -o, and -f with these formats."""
    text = "Form of the result, and a file for it; repeatable.  [default: table on a terminal, else json]"
    form = click.option("-f", "--format", "forms", multiple=True, type=_Form(formats), help=text)
    return in_order(output_file("Write the result to FILE"), form)


everything: Decorator = click.option("--all", "everything", is_flag=True, help="Tables leave nothing out, however long they get.")


def table_output(*more: str) -> Decorator:
    """Return -o, -f with the forms of what has a table (and ``more``), and --all."""
    return in_order(output("table", "wide", "csv", "json", "yaml", *more), everything)


#: -o, -f with the forms of findings, and --all.
findings_output: Decorator = table_output("junit", "sarif", "github", "gitlab", "openmetrics")


def manifests(
    *names: str, text: str = "Add the pods of these manifests; each PodTemplate is placed whole or not at all.", required: bool = False
) -> Decorator:
    """Return the option for manifests, with these names, and what is let through in them."""
    unknown = "Ignore fields of manifests that Kubernetes' types do not have."
    return in_order(
        click.option(*names, "manifests", multiple=True, required=required, metavar="FILE", type=FILE, help=text),
        click.option("--allow-unknown-fields", is_flag=True, help=unknown),
    )


def result_file(text: str, *, required: bool = False) -> Decorator:
    """Return --result."""
    return click.option("--result", required=required, metavar="FILE", type=FILE, help=text)


def time_limit(default: float, text: str) -> Decorator:
    """Return --time-limit."""
    return click.option("--time-limit", type=float, callback=positive, default=default, metavar="SECONDS", help=text)


daemon_namespaces: Decorator = click.option(
    "--daemon-namespaces",
    callback=listed,
    metavar="NS,...",
    help="Exempt pods of these namespaces from hard anti-affinity, in both directions.",
)

scope = in_order(click.option("--include-gated", is_flag=True, help="Treat pods with scheduling gates as pending."), daemon_namespaces)


def _namespace(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from kubestow.models.snapshot.object_names import LABEL_TEXT, is_label

        if not is_label(value):
            raise click.BadParameter(f"{value!r} is no name of a namespace: {LABEL_TEXT}")
    return value


namespace: Decorator = click.option(
    "-n",
    "--namespace",
    callback=_namespace,
    metavar="NAMESPACE",
    help="Namespace of the manifests' objects that name none.  [default: default]",
)

requests: Decorator = click.option(
    "--requests",
    multiple=True,
    metavar="[RESOURCE=]FILE",
    help="With the requests that krr, VerticalPodAutoscalers or an answer of Prometheus (cpu=FILE, memory=FILE) recommend.",
)

#: What-if edits of nodes, called like the fields of :class:`kubestow.models.documents.placement.Edits`.
node_edits = in_order(
    click.option("--add-nodes", "addNodes", multiple=True, metavar="N:LIKE_NODE", help="With N more nodes like an existing one."),
    click.option("--buy", multiple=True, metavar="N:SHAPE@ZONE", help="With N more nodes of a shape of --catalogue in a zone."),
    click.option("--remove-node", "removeNodes", multiple=True, metavar="NODE", help="Without this node."),
    click.option("--remove-domain", "removeDomains", multiple=True, metavar="KEY=VALUE", help="Without the nodes that carry this label."),
    requests,
)
#: These and those of pods.
edits = in_order(
    namespace,
    click.option("--partial", is_flag=True, help="Manifests need not be placed whole."),
    node_edits,
    click.option(
        "--replicas", multiple=True, metavar="NAME=N", help="Scale a workload, [KIND/][NAMESPACE/]NAME, of the manifests or the snapshot."
    ),
)


def catalogue(text: str) -> Decorator:
    """Return --catalogue."""
    return click.option("--catalogue", metavar="FILE", type=READ, help=f"The nodes that can be had, and their prices: {text}.")


policy = in_order(
    click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        type=READ,
        help="What preferences weigh, and switches of their meaning (YAML).",
    ),
    click.option(
        "--shorthand",
        type=click.Choice(["directed", "symmetric"]),
        help="Whether the shorthand of container affinity also pulls back.  [default: the policy's, else directed]",
    ),
)

#: Of a search, what makes it give the same again.
repeatable = in_order(
    click.option("--seed", type=SEED, default=0, metavar="N", help="Seed of the search."),
    click.option("--deterministic", is_flag=True, help="The same input gives the same bytes; the time limit counts deterministic seconds."),
    click.option("--workers", type=click.IntRange(1, 1024), metavar="N", help="Parallel searches.  [default: one per core]"),
)

search = in_order(
    time_limit(60.0, "Seconds for the whole run."),
    click.option("--engine", type=click.Choice(["auto", "exact", "greedy", "lns"]), default="auto", help="How to search."),
    repeatable,
)

workers = in_order(
    click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes that share the work.  [default: 1]"),
    click.option("--dask", metavar="ADDRESS|local|FILE", help="Workers of this Dask scheduler share it; local: one that is started here."),
)

#: By which version's rules, and which feature gates.
versions = in_order(version_options.version, version_options.feature_gates)

strict: Decorator = click.option(
    "--strict", is_flag=True, help="Refuse input of which something is not modelled or not taken into account (exit 4)."
)

max_input: Decorator = click.option(
    "--max-input",
    metavar="SIZE",
    callback=_bounded,
    expose_value=False,
    help="Refuse an input file of more bytes, unpacked: 500M, 2Gi, none.  [default: a quarter of the free memory]",
)


def noise(quiet: str = "Say nothing but errors on standard error.", verbose: str = "Say more on standard error.") -> Decorator:
    """Return -q and -v."""
    verbosely = click.option("-v", "--verbose", is_flag=True, help=verbose)
    return in_order(click.option("-q", "--quiet", is_flag=True, help=quiet), verbosely)


#: What every command has that judges a snapshot.
judged = in_order(versions, strict, max_input, noise())
#: The same under a policy, with the namespaces exempt from anti-affinity, and with all that says which pods count.
exempting = in_order(policy, daemon_namespaces, judged)
scoped = in_order(policy, scope, judged)
