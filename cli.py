"""The command line: parse options, call, render.

Nothing heavy is imported at module level, so that ``--help`` and shell completion answer at once.
"""

from __future__ import annotations

import os
import signal
import sys

# ^C before a command runs: there is nothing to be saved, and nobody yet who could turn it into one line. Not where another program
# imports this one.
_EARLY = signal.getsignal(signal.SIGINT) is signal.default_int_handler and os.path.basename((sys.argv or [""])[0]) in ("kubestow", "cli.py")
if _EARLY:
    try:  # noqa: SIM105 (contextlib is among what is still to be read)
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    except ValueError:
        pass  # not the main thread: signals are another's business

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from models.documents.placement import Cause, Edits, Placement, Unmodelled
    from models.documents.policy import Policy
    from models.documents.rebalance_plan import RebalancePlan
    from models.snapshot.snapshot import Snapshot
    from report.terminal.canvas import Surface
    from report.terminal.progress import Quiet
    from solver.explain.per_node import PodVerdict
    from solver.runtime.options import Options

VERSION = "0.1.0"

DONE, BAD_INPUT, INCOMPLETE, VIOLATED, INTERRUPTED = 0, 1, 3, 4, 130

#: Warnings shown without -v.
_WARNINGS = 20

_PERCENT = click.IntRange(0, 100)
_COUNT = click.IntRange(0, 2**31 - 1)
#: Times all moves, and 100 units a point, this stays below 2**53, to which CP-SAT is exact.
_GAIN = click.IntRange(0, 10**6)

_T = TypeVar("_T")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _say(text: str) -> None:
    """One line on standard error; that nobody listens there is no reason to fail."""
    from report.documents.output import one_line

    with contextlib.suppress(OSError):
        click.echo(one_line(text), err=True)


def _fail(problems: Sequence[str], code: int = BAD_INPUT) -> NoReturn:
    """End the command with one line per problem on standard error."""
    for problem in problems:
        _say(f"kubestow: {problem}")
    raise click.exceptions.Exit(code)


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
        # Also when started as a file: completion scripts and usage lines need the installed name.
        kwargs.setdefault("prog_name", "kubestow")
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            _answer_interrupts(_interrupt)
            return super().invoke(ctx)
        except _Aborted:
            _say("kubestow: aborted")
            # The solver's thread is still at work, and an orderly exit would wait for it.
            os._exit(INTERRUPTED)
        except KeyboardInterrupt:
            _fail(["interrupted"], INTERRUPTED)
        except BrokenPipeError:
            _fail([])
        except OSError as error:
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            _fail([f"{where}{error.strerror or error}"])
        except MemoryError:
            _fail(["out of memory"])
        except RecursionError:
            _fail(["the input is nested too deeply"])
        except UnicodeError as error:
            _fail([f"text that cannot be encoded: {error}"])
        finally:
            _answer_interrupts(signal.SIG_IGN)  # all is said and done: one more ^C must not be the command's end


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names separated by commas, without repeats."""
    if value is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    if not all(names):
        raise click.BadParameter(f"{value!r} holds an empty name (expected names separated by commas)")
    return names


def _positive(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not 0 < value < float("inf"):
        raise click.BadParameter(f"{value} is not a positive number of seconds")
    return value


def _pod_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch("[^/]+/[^/]+", value):
        raise click.BadParameter(f"{value!r} is not of the form NAMESPACE/NAME")
    return value


def _keys(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(value):
        raise click.BadParameter("an empty name (expected a label key)")
    return value


def _stages(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """STAGE=KEY as a mapping."""
    found: dict[str, str] = {}
    for text in value:
        stage, _, key = text.partition("=")
        if stage not in ("zones", "clouds", "locations") or not key:
            raise click.BadParameter(f"{text!r} is not of the form STAGE=KEY, STAGE one of zones, clouds, locations")
        if stage in found:
            raise click.BadParameter(f"{stage} is given more than once")
        found[stage] = key
    return found


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="kubestow")
def main() -> None:
    """Offline placement optimiser for Kubernetes.

    Reads a snapshot of a cluster and decides for all pods at once which node each goes to, under exactly the rules of
    kube-scheduler, with a proof of how good the answer is.

    A SNAPSHOT is a file (JSON or YAML, also .gz) of Kubernetes objects, a directory of such files, or - for standard input;
    several are merged.
    """


def _snapshot_argument(command: _Command) -> _Command:
    path = click.Path(allow_dash=True)
    return click.argument("snapshots", metavar="SNAPSHOT...", nargs=-1, required=True, type=path)(command)


def _output_options(*formats: str) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        command = click.option(
            "-f", "--format", "form", type=click.Choice(formats), help="Form of the result.  [default: table on a terminal, else json]"
        )(command)
        return click.option(
            "-o", "--output", metavar="FILE", type=click.Path(allow_dash=True), help="Write the result to FILE, whole or not at all."
        )(command)

    return decorate


def _daemon_option(command: _Command) -> _Command:
    return click.option(
        "--daemon-namespaces",
        callback=_names,
        metavar="NS,...",
        help="Exempt pods of these namespaces from hard anti-affinity, in both directions.",
    )(command)


def _scope_options(command: _Command) -> _Command:
    command = _daemon_option(command)
    return click.option("--include-gated", is_flag=True, help="Treat pods with scheduling gates as pending.")(command)


def _manifest_option(*names: str) -> Callable[[_Command], _Command]:
    text = "Add the pods of these manifests; each PodTemplate is placed whole or not at all."
    return click.option(*names, "manifests", multiple=True, metavar="FILE", type=click.Path(allow_dash=True), help=text)


def _edit_options(command: _Command) -> _Command:
    """What-if edits, of everything that asks about a cluster as it could be."""
    named = "Scale a workload, [KIND/][NAMESPACE/]NAME, of the manifests or the snapshot."
    domain = "Without the nodes that carry this label."
    command = click.option("--replicas", multiple=True, metavar="NAME=N", help=named)(command)
    command = click.option("--remove-domain", "remove_domains", multiple=True, metavar="KEY=VALUE", help=domain)(command)
    command = click.option("--remove-node", "remove_nodes", multiple=True, metavar="NODE", help="Without this node.")(command)
    command = click.option("--add-nodes", multiple=True, metavar="N:LIKE_NODE", help="With N more nodes like an existing one.")(command)
    return click.option("--partial", is_flag=True, help="Manifests need not be placed whole.")(command)


def _policy_options(command: _Command) -> _Command:
    command = click.option(
        "--shorthand",
        type=click.Choice(["directed", "symmetric"]),
        help="Whether the shorthand of container affinity also pulls back.  [default: the policy's, else directed]",
    )(command)
    return click.option(
        "--policy", "policy_file", metavar="FILE", type=click.Path(), help="What preferences weigh, and switches of their meaning (YAML)."
    )(command)


def _search_options(command: _Command) -> _Command:
    """How to search, for how long, and what to refuse."""
    engines = click.Choice(["auto", "exact", "greedy", "lns"])
    again = "The same input gives the same bytes; the time limit counts deterministic seconds."
    refuse = "Refuse a snapshot that uses something kubestow does not model (exit 4)."
    seeds, workers = click.IntRange(0, 2**31 - 1), click.IntRange(1, 1024)
    command = click.option("--strict", is_flag=True, help=refuse)(command)
    command = click.option("--workers", type=workers, metavar="N", help="Parallel searches.  [default: one per core]")(command)
    command = click.option("--deterministic", is_flag=True, help=again)(command)
    command = click.option("--seed", type=seeds, default=0, show_default=True, metavar="N", help="Seed of the search.")(command)
    command = click.option("--engine", type=engines, default="auto", show_default=True, help="How to search.")(command)
    return _time_limit(60.0, "Seconds for the whole run.")(command)


def _time_limit(default: float, text: str) -> Callable[[_Command], _Command]:
    return click.option("--time-limit", type=float, callback=_positive, default=default, show_default=True, metavar="SECONDS", help=text)


def _noise_options(command: _Command) -> _Command:
    command = click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")(command)
    return click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors on standard error.")(command)


@main.command()
@_snapshot_argument
@_output_options("table", "json", "yaml", "kubectl")
@_search_options
@click.option("--from-scratch", is_flag=True, help="Place all movable bound pods anew.")
@_manifest_option("-w", "--workload")
@_edit_options
@click.option(
    "--rollout", metavar="NAME[=FILE]", help="Roll a Deployment out instead, wave by wave: the template in FILE, else the same once more."
)
@click.option(
    "--strategy",
    type=click.Choice(["spread", "pack", "none"]),
    help="What breaks ties after all preferences.  [default: the policy's, else spread]",
)
@_policy_options
@_scope_options
@_noise_options
def solve(
    snapshots: tuple[str, ...],
    output: str | None,
    form: str | None,
    time_limit: float,
    engine: Any,
    seed: int,
    deterministic: bool,
    workers: int | None,
    from_scratch: bool,
    manifests: tuple[str, ...],
    rollout: str | None,
    strategy: Any,
    policy_file: str | None,
    shorthand: Any,
    include_gated: bool,
    daemon_namespaces: tuple[str, ...],
    strict: bool,
    quiet: bool,
    verbose: bool,
    **edits: Any,
) -> None:
    """Place every pending pod, and those of manifests given with -w.

    Exits with 0 when all pods are placed, 3 when some are not (the result is written all the same), 130 when interrupted (the
    best result so far is written).
    """
    from report.terminal import placement as terminal_placement
    from report.terminal import progress
    from solver.runtime.options import Options

    if form == "kubectl" and from_scratch:
        raise click.UsageError("-f kubectl cannot move bound pods, as --from-scratch does: that needs evictions, and `kubestow rebalance`")
    if form == "kubectl" and (manifests or rollout or any(edits.values())):
        raise click.UsageError("-f kubectl cannot carry out what is not in the cluster yet: manifests, rollouts and what-if edits")
    if rollout is not None and (from_scratch or manifests or edits["partial"]):
        raise click.UsageError("--rollout goes with neither -w, --partial nor --from-scratch")
    name, template = _rollout(rollout)
    changes = _edits(edits, manifests)
    _check_stdin([*snapshots, *manifests, *([template] if template else [])])
    _check_noise(quiet, verbose)
    _check_output(output)
    policy = _policy(policy_file, strategy=strategy, shorthand=shorthand)
    started = time.monotonic()
    snapshot = _load(snapshots, quiet=quiet, verbose=verbose, policy=policy)
    revision = _manifests([template]) if template else None
    edited = _edit(snapshot, manifests, changes, quiet=quiet, verbose=verbose)
    snapshot = edited.snapshot
    loaded = time.monotonic() - started
    options = Options(
        engine=engine,
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        deterministic=deterministic,
        from_scratch=from_scratch,
        include_gated=include_gated,
        daemon_namespaces=daemon_namespaces,
        policy=policy,
        search_strategy=strategy is not None or policy.strategy != "spread",
        workloads=tuple(edited.workloads),
        edits=changes,
        unmodelled=tuple(edited.unmodelled),
    )
    stop = threading.Event()
    with progress.choose(quiet=quiet, verbose=verbose) as display:
        if name is None:
            placement = _input(lambda: _place(snapshot, options, display, stop, started))
        else:
            from solver.rollout.simulate import roll_out

            placement = _input(lambda: _in_thread(partial(roll_out, snapshot, name, revision, options), display, stop, started))
    if placement.seconds is not None:
        placement.seconds.load = round(loaded, 3)
    _check_answer(placement, stop, strict=strict)
    _write(output, _render_placement(placement, snapshot, form or _default_format(output), output))
    if not quiet:
        if form == "kubectl" and include_gated:
            _say("warning: the API server binds no pod that has scheduling gates; remove them before you create the bindings")
        _say(terminal_placement.summary(placement, time.monotonic() - started))
    if stop.is_set():
        _leave(INTERRUPTED)
    waiting = any(not left.gated for left in placement.unplaced)
    _leave(INCOMPLETE if waiting or placement.status == "unknown" else DONE)


@main.command()
@_snapshot_argument
@_output_options("table", "json", "yaml", "kubectl")
@click.option(
    "--goal",
    "goals",
    multiple=True,
    type=click.Choice(["repair", "improve", "consolidate", "admit"]),
    help="What to plan for; repeatable, the weightiest first.",
)
@click.option("--drain", multiple=True, metavar="NODE|SELECTOR", help="Empty a node, or those with such labels, before all goals.")
@click.option("--max-moves", "maxMoves", type=_COUNT, metavar="N", help="Moves of the whole plan.")
@click.option("--max-moves-per-namespace", "maxMovesPerNamespace", type=_COUNT, metavar="N", help="Moves of the pods of one namespace.")
@click.option("--max-moves-per-workload", "maxMovesPerWorkload", type=_COUNT, metavar="N", help="Moves of the pods of one workload.")
@click.option("--max-freed", "maxFreed", type=_COUNT, metavar="N", help="Nodes that the goal consolidate frees, by the fewest moves.")
@click.option("--max-evictions", "maxEvictions", type=_COUNT, metavar="N", help="Pods that go for good.")
@click.option("--allow-eviction", "allowEviction", is_flag=True, help="Pods may go for good where moves alone do not reach a goal.")
@click.option("--also-move", "alsoMove", multiple=True, type=click.Choice(["bare", "local-storage"]), help="Move such pods, too.")
@click.option("--min-gain", "minGain", type=_GAIN, default=1, show_default=True, metavar="N", help="Points per move of the goal improve.")
@_search_options
@_policy_options
@_scope_options
@_noise_options
def rebalance(
    snapshots: tuple[str, ...],
    output: str | None,
    form: str | None,
    goals: tuple[str, ...],
    drain: tuple[str, ...],
    time_limit: float,
    engine: Any,
    seed: int,
    deterministic: bool,
    workers: int | None,
    policy_file: str | None,
    shorthand: Any,
    include_gated: bool,
    daemon_namespaces: tuple[str, ...],
    strict: bool,
    quiet: bool,
    verbose: bool,
    **limits: Any,
) -> None:
    """Plan which running pods move where, and in which order, such that nothing breaks on the way.

    Exits with 0 when the goals are reached or there is nothing to gain, 3 when a goal is not reached (the plan is written all the same),
    130 when interrupted (the best plan so far is written).
    """
    from models.documents.rebalance_plan import Limits
    from report.terminal import progress
    from solver.runtime.options import Options

    if not goals and not drain:
        raise click.UsageError("nothing to plan for: give a --goal, or nodes to --drain")
    if len(set(goals)) < len(goals):
        raise click.UsageError("a --goal is given more than once")
    if limits["maxFreed"] is not None and "consolidate" not in goals:
        raise click.UsageError("--max-freed needs --goal consolidate")
    if limits["maxEvictions"] is not None and not limits["allowEviction"]:
        raise click.UsageError("--max-evictions needs --allow-eviction")
    if limits["allowEviction"] and "admit" in goals[1:]:
        raise click.UsageError("with --allow-eviction, admit has to be the first goal")
    if limits["allowEviction"] and "repair" in goals and {"consolidate", "improve"} & set(goals[: goals.index("repair")]):
        raise click.UsageError("with --allow-eviction, repair comes before consolidate and improve: no pod is evicted for these")
    limits["alsoMove"] = list(dict.fromkeys(limits["alsoMove"]))
    _check_stdin(snapshots)
    _check_noise(quiet, verbose)
    _check_output(output)
    policy = _policy(policy_file, shorthand=shorthand)
    if limits["maxFreed"] is not None and policy.priceLabel:
        raise click.UsageError("--max-freed counts nodes, and the policy's priceLabel sums their prices")
    started = time.monotonic()
    snapshot = _load(snapshots, quiet=quiet, verbose=verbose, policy=policy)
    loaded = time.monotonic() - started
    from report.terminal.rebalance_plan import plan_line
    from solver.rebalance.problem.options import PlanOptions
    from solver.rebalance.rebalance import rebalance as search

    options = Options(
        engine=engine,
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        deterministic=deterministic,
        include_gated=include_gated,
        daemon_namespaces=daemon_namespaces,
        policy=policy,
    )
    asked = PlanOptions(goals, drain, Limits(**limits), options)
    stop = threading.Event()
    with progress.choose(quiet=quiet, verbose=verbose) as display:
        plan = _input(lambda: _in_thread(partial(search, snapshot, asked), display, stop, started))
    if plan.seconds is not None:
        plan.seconds.load = round(loaded, 3)
    _check_answer(plan, stop, strict=strict)
    _write(output, _render_plan(plan, snapshot, form or _default_format(output), output))
    if not quiet:
        if form == "kubectl" and include_gated:
            _say("warning: the API server binds no pod that has scheduling gates; remove them before you run the script")
        _say(plan_line(plan, time.monotonic() - started))
    if stop.is_set():
        _leave(INTERRUPTED)
    _leave(INCOMPLETE if plan.obstacles else DONE)


@main.command()
@_snapshot_argument
@click.option(
    "--result",
    required=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="The Placement or RebalancePlan to check (JSON or YAML).",
)
@_manifest_option("-w", "--workload")
@_output_options("table", "json", "yaml")
@_noise_options
def verify(
    snapshots: tuple[str, ...], result: str, manifests: tuple[str, ...], output: str | None, form: str | None, quiet: bool, verbose: bool
) -> None:
    """Check a Placement or a RebalancePlan against the raw objects, independently of the solver.

    What-if edits that the document names are made again; manifests that were added (or rolled out) are given once more with -w. A plan is
    replayed step by step. Exits with 0 when every assignment or step is valid, 4 when there are violations.
    """
    from models.documents.rebalance_plan import RebalancePlan
    from report.documents import results
    from report.terminal import answers

    _check_stdin([*snapshots, *manifests, result])
    _check_noise(quiet, verbose)
    _check_output(output)
    found = _input(lambda: results.read_result(result))
    if isinstance(found, RebalancePlan) and manifests:
        raise click.UsageError("a RebalancePlan is checked without manifests (-w)")
    snapshot = _load(snapshots, quiet=quiet, verbose=verbose)
    if isinstance(found, RebalancePlan):
        violations = _plan_violations(snapshot, found)
    else:
        _, _, violations = _violations(snapshot, found, manifests, quiet=quiet, verbose=verbose)
    form = form or _default_format(output)
    if form == "table":
        data = _draw(answers.violations_table(violations, found), _surface(output))
    else:
        data = results.encode(results.violations_document(violations), "yaml" if form == "yaml" else "json")
    _write(output, data)
    if not quiet:
        _say(answers.verdict_line(violations, found))
    _leave(VIOLATED if violations else DONE)


def _plan_violations(snapshot: Snapshot, plan: RebalancePlan) -> list[Any]:
    """What is wrong with a plan; one for another snapshot is not replayed."""
    from checker.plan.plan import verify_plan
    from checker.violation import Violation

    if plan.snapshot.sha256 != snapshot.sha256:
        why = f"the plan is for another snapshot: its sha256 is {plan.snapshot.sha256[:12]}, that of this one {snapshot.sha256[:12]}"
        return [Violation("", "", plan.kind, why)]
    return _input(lambda: list(verify_plan(snapshot, plan)))


def _causes(
    snapshot: Snapshot,
    verdicts: Sequence[PodVerdict],
    policy: Policy,
    exempt: tuple[str, ...],
    seconds: float,
    stop: threading.Event,
    *,
    whole: bool,
    quiet: bool,
) -> list[Cause]:
    """Minimal causes and ways out of what fits nowhere; a ^C sets ``stop`` and ends them."""
    from report.terminal import progress
    from solver.explain.unplaced import asked, explain_left
    from solver.runtime.options import Options
    from solver.runtime.run_context import RunContext

    left = asked(snapshot, verdicts, whole=whole, tiers=policy.networkTiers)
    if not left:
        return []
    options = Options(time_limit=seconds, daemon_namespaces=exempt, policy=policy)

    def work(**_: Any) -> list[Cause]:
        return [cause for _, cause in explain_left(snapshot, left, [], RunContext.start(options, stop))]

    with progress.choose(quiet=quiet, verbose=False) as display:
        return _in_thread(work, display, stop, time.monotonic())


def _violations(
    snapshot: Snapshot, placement: Placement, manifests: Sequence[str], *, quiet: bool, verbose: bool
) -> tuple[Snapshot, Snapshot | None, list[Any]]:
    """The snapshot with what a document says was edited and added, the manifests of its rollout, and what is wrong with the document."""
    ref = placement.snapshot
    if ref.workloads and not manifests:
        _fail([f"the result was made with manifests ({ref.workloads[0]}): give the same files with -w"])
    if ref.rollout is None:
        from checker.placement import verify as check

        given = _edit(snapshot, manifests, ref.edits, quiet=quiet, verbose=verbose)
        if given.workloads != ref.workloads:
            names = [", ".join(found) or "nothing" for found in (given.workloads, ref.workloads)]
            _fail([f"-w adds {names[0]}, the result was made with {names[1]}"])
        return given.snapshot, None, _input(lambda: list(check(given.snapshot, placement)))
    from checker.rollout import verify_rollout

    edited = _edit(snapshot, (), ref.edits, quiet=quiet, verbose=verbose).snapshot
    revision = _manifests(manifests) if manifests else None
    return edited, revision, _input(lambda: list(verify_rollout(edited, placement, revision)))


@main.command()
@_snapshot_argument
@click.option("--pod", callback=_pod_name, metavar="NS/NAME", help="Judge this pod only; it may also be bound.")
@click.option("--workload", metavar="NAME", help="Judge the pods of this workload only, [KIND/][NAMESPACE/]NAME.")
@click.option("--node", metavar="NODE", help="Judge this node only.")
@click.option("--per-node", is_flag=True, help="For every node, all rules that reject it.")
@click.option(
    "--affinity", callback=_pod_name, metavar="NS/NAME", help="Print the container affinity A(C1, C2) of this pod or workload instead."
)
@_time_limit(10.0, "Seconds for causes.")
@_manifest_option("-w")
@_edit_options
@_output_options("table", "json", "yaml")
@_policy_options
@_scope_options
@_noise_options
def explain(
    snapshots: tuple[str, ...],
    pod: str | None,
    workload: str | None,
    node: str | None,
    per_node: bool,
    affinity: str | None,
    time_limit: float,
    manifests: tuple[str, ...],
    output: str | None,
    form: str | None,
    policy_file: str | None,
    shorthand: Any,
    include_gated: bool,
    daemon_namespaces: tuple[str, ...],
    quiet: bool,
    verbose: bool,
    **edits: Any,
) -> None:
    """Say where each pending pod could go, and which rules reject the other nodes.

    Each pod is judged alone against the bound pods, as kube-scheduler would now. Pods that fit on no node, gangs, and the pods of
    --workload together also get a minimal cause and the cheapest ways out. Exits with 0 whatever the answer is.
    """
    from report.documents import results
    from report.terminal import answers
    from report.terminal.causes import causes as cause_texts

    _check_noise(quiet, verbose)
    _check_output(output)
    if affinity is not None and (pod is not None or workload is not None or node is not None or per_node):
        raise click.UsageError("--affinity goes with neither --pod, --workload, --node nor --per-node")
    if pod is not None and workload is not None:
        raise click.UsageError("--pod and --workload do not go together")
    changes = _edits(edits, manifests)
    _check_stdin([*snapshots, *manifests])
    policy = _policy(policy_file, shorthand=shorthand)
    snapshot = _load(snapshots, quiet=quiet, verbose=verbose, policy=policy if affinity is None else None)
    snapshot = _edit(snapshot, manifests, changes, quiet=quiet, verbose=verbose).snapshot
    from solver.explain.per_node import UnknownNode, UnknownPod
    from solver.explain.per_node import explain as judge

    form = form or _default_format(output)
    if affinity is not None:
        from solver.explain.affinity_matrix import matrix

        try:
            found = _input(lambda: matrix(snapshot, affinity, policy))
        except UnknownPod as error:
            _fail([f"--affinity: {error}"])
        for warning in () if quiet else found.warnings:
            _say(f"warning: {warning}")
        if form == "table":
            data = _draw(answers.affinity_table(found), _surface(output))
        else:
            data = results.encode(results.affinity_document(found), "yaml" if form == "yaml" else "json")
        _write(output, data)
        _leave(DONE)
    exempt = daemon_namespaces or policy.daemonNamespaces
    try:
        verdicts = _input(
            lambda: judge(
                snapshot, pod=pod, workload=workload, node=node, include_gated=include_gated, daemon_namespaces=exempt, policy=policy
            )
        )
    except UnknownPod as error:
        _fail([f"{'--pod' if workload is None else '--workload'}: {error}"])
    except UnknownNode as error:
        _fail([f"--node: {error}: no such node in the snapshot"])
    for one in snapshot.pods if pod is not None and not quiet else ():
        if one.spec.schedulingGates and f"{one.metadata.namespace}/{one.metadata.name}" == pod:
            gates = ", ".join(gate.name for gate in one.spec.schedulingGates)
            _say(f"warning: {pod} waits for its scheduling gates ({gates}) and is judged as if they were gone")
    causes: list[Cause] = []
    stop = threading.Event()
    if node is None and not per_node:
        together = workload is not None
        causes = _input(lambda: _causes(snapshot, verdicts, policy, exempt, time_limit, stop, whole=together, quiet=quiet))
    if form == "table":
        surface = _surface(output)
        parts = [*answers.explanation(verdicts, surface, per_node=per_node), *cause_texts(causes)]
        data = _draw(iter(parts), surface)
    else:
        document = results.explain_document(verdicts, per_node=per_node, causes=causes)
        data = results.encode(document, "yaml" if form == "yaml" else "json")
    _write(output, data)
    _leave(INTERRUPTED if stop.is_set() else DONE)


@main.command()
@_snapshot_argument
@_manifest_option("-w", "--workload")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="Exit with 4 where a finding is at least as grave.",
)
@click.option(
    "--machine-label",
    "machine_labels",
    multiple=True,
    callback=_keys,
    metavar="KEY",
    help="Node label that names the physical machine; repeatable, the first that all control-plane nodes carry counts.",
)
@click.option(
    "--stage-label",
    "stage_labels",
    multiple=True,
    callback=_stages,
    metavar="STAGE=KEY",
    help="Node label of the stage zones, clouds or locations; repeatable.",
)
@_time_limit(60.0, "Seconds for the whole run; what was not checked by then is named.")
@_output_options("table", "json", "yaml", "junit")
@_policy_options
@_daemon_option
@_noise_options
def audit(
    snapshots: tuple[str, ...],
    manifests: tuple[str, ...],
    fail_on: str,
    machine_labels: tuple[str, ...],
    stage_labels: dict[str, str],
    time_limit: float,
    output: str | None,
    form: str | None,
    policy_file: str | None,
    shorthand: Any,
    daemon_namespaces: tuple[str, ...],
    quiet: bool,
    verbose: bool,
) -> None:
    """Look for what is wrong with a cluster, or will be.

    Rules that are broken now, that can never hold or bind nobody, anti-affinity that can hog a cluster, rolling updates that would get
    stuck, budgets that allow nothing, the redundancy of the control plane. Every finding has a code, which the documentation explains.
    Exits with 4 when there is a finding at least as grave as --fail-on says.
    """
    from models.documents.audit import to_builtins
    from report.documents import results
    from report.terminal import audit as answers
    from report.terminal import progress

    _check_stdin([*snapshots, *manifests])
    _check_noise(quiet, verbose)
    _check_output(output)
    policy = _policy(policy_file, shorthand=shorthand)
    started = time.monotonic()
    snapshot = _load(snapshots, quiet=quiet, verbose=verbose)
    snapshot = _edit(snapshot, manifests, None, quiet=quiet, verbose=verbose).snapshot
    from audit.catalogue import CODES
    from audit.run import AuditOptions
    from audit.run import audit as look

    options = AuditOptions(policy, daemon_namespaces, machine_labels, stage_labels, time_limit)
    stop = threading.Event()
    with progress.choose(quiet=quiet, verbose=verbose) as display:
        found = _input(lambda: _in_thread(partial(look, snapshot, options), display, stop, started))
    titles = {code: kind.title for code, kind in CODES.items()}
    form = form or _default_format(output)
    if form == "table":
        data = _draw(answers.audit_table(found, titles), _surface(output))
    elif form == "junit":
        data = answers.junit(found, titles, fail_on)
    else:
        data = results.encode(to_builtins(found), "yaml" if form == "yaml" else "json")
    _write(output, data)
    if not quiet:
        _say(f"{answers.audit_line(found)}, {time.monotonic() - started:.1f} s")
    if stop.is_set():
        _leave(INTERRUPTED)
    _leave(VIOLATED if answers.failing(found, fail_on) else DONE)


@main.command()
@_snapshot_argument
@click.option(
    "--result",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="The Placement or RebalancePlan to show; without one the cluster is shown as it is.",
)
@_manifest_option("-w", "--workload")
@click.option("-o", "--output", metavar="FILE", type=click.Path(allow_dash=True), help="Write the page to FILE, whole or not at all.")
@_time_limit(10.0, "Seconds for causes, where there is no result.")
@_policy_options
@_scope_options
@_noise_options
def report(
    snapshots: tuple[str, ...],
    result: str | None,
    manifests: tuple[str, ...],
    output: str | None,
    time_limit: float,
    policy_file: str | None,
    shorthand: Any,
    include_gated: bool,
    daemon_namespaces: tuple[str, ...],
    quiet: bool,
    verbose: bool,
) -> None:
    """Write one self-contained HTML page: the cluster, and what a result does with it.

    Manifests that the result was made with are given once more with -w. Without a result the page shows the cluster as it is, and why
    pending pods wait. The result is checked first; the page says what is wrong with it, and the command then exits with 4.
    """
    from models.documents.rebalance_plan import RebalancePlan
    from report.documents import results

    _check_stdin([*snapshots, *manifests, *([result] if result else [])])
    _check_noise(quiet, verbose)
    _check_output(output)
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError("a page is nothing to read on a terminal: give -o FILE")
    given = (policy_file, shorthand, *daemon_namespaces, include_gated or None)
    if result is not None and any(option is not None for option in given):
        raise click.UsageError(
            "--policy, --shorthand, --daemon-namespaces and --include-gated are the result's own: they do not go with --result"
        )
    found = _input(lambda: results.read_result(result)) if result is not None else None
    if isinstance(found, RebalancePlan) and manifests:
        raise click.UsageError("a RebalancePlan is shown without manifests (-w)")
    policy = _policy(policy_file, shorthand=shorthand)
    stop = threading.Event()
    original = _load(snapshots, quiet=quiet, verbose=verbose, policy=policy if found is None else None)
    snapshot, violations, verdicts, causes = original, [], [], []
    if found is None:
        snapshot = _edit(original, manifests, None, quiet=quiet, verbose=verbose).snapshot
        from solver.explain.per_node import explain as judge

        exempt = daemon_namespaces or policy.daemonNamespaces
        verdicts = _input(lambda: judge(snapshot, include_gated=include_gated, daemon_namespaces=exempt, policy=policy))
        causes = _input(lambda: _causes(snapshot, verdicts, policy, exempt, time_limit, stop, whole=False, quiet=quiet))
    elif isinstance(found, RebalancePlan):
        violations = _plan_violations(original, found)
        _check_same(found, original)
    else:
        from report.page.rollouts import with_new_pods

        edited, revision, violations = _violations(original, found, manifests, quiet=quiet, verbose=verbose)
        _check_same(found, edited)
        placement = found
        snapshot = _input(lambda: with_new_pods(edited, placement, revision))
    from report.page import data, render

    page = _input(
        lambda: data.build(snapshot, found, original=original, violations=violations, verdicts=verdicts, causes=causes, version=VERSION)
    )
    _write(output, render.render(page))
    if violations and not quiet:
        _say(f"warning: the result does not hold: {len(violations)} violations, which the page shows")
    if stop.is_set():
        _leave(INTERRUPTED)
    _leave(VIOLATED if violations else DONE)


def _check_same(result: Placement | RebalancePlan, snapshot: Snapshot) -> None:
    """That a result is of this snapshot: of another one there is nothing to show."""
    theirs = result.snapshot.sha256
    if theirs and theirs != snapshot.sha256:
        _fail([f"the result is of another snapshot: its sha256 is {theirs[:12]}, that of this one {snapshot.sha256[:12]}"])


@main.command()
@click.option("--nodes", type=click.IntRange(1, 100_000), required=True, metavar="N", help="Number of nodes.")
@click.option("--pods", type=click.IntRange(1, 10_000_000), required=True, metavar="P", help="Number of pods.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, metavar="S", help="Seed of all draws.")
@click.option("--zones", type=click.IntRange(1, 1000), default=3, show_default=True, metavar="N", help="Number of zones.")
@click.option(
    "--fill", type=click.IntRange(1, 100), default=60, show_default=True, metavar="PERCENT", help="Use of CPU by all pods; with --worn 45."
)
@click.option("--bound", type=_PERCENT, default=0, show_default=True, metavar="PERCENT", help="Pods that run already.")
@click.option("--priorities", type=click.IntRange(0, 100), default=3, show_default=True, metavar="N", help="Number of PriorityClasses.")
@click.option("--numa", type=_PERCENT, default=0, show_default=True, metavar="PERCENT", help="Nodes with a NodeResourceTopology.")
@click.option(
    "--rules", type=_PERCENT, metavar="PERCENT", help="Workloads with hard rules.  [default: 30; with --worn 40, with --planted 50]"
)
@click.option("--preferences", type=_PERCENT, default=30, show_default=True, metavar="PERCENT", help="Workloads with preferences.")
@click.option(
    "--tainted", type=click.IntRange(0, 50), default=5, show_default=True, metavar="PERCENT", help="Nodes of dedicated, tainted pools."
)
@click.option(
    "--planted",
    type=click.IntRange(1, 100),
    metavar="USAGE",
    help="Cut the pods from this share of every node instead: a tight complete placement exists.",
)
@click.option(
    "--worn", type=click.IntRange(0, 90), metavar="PERCENT", help="Everything runs, on nodes that such a share of the pods has left."
)
@click.option("-f", "--format", "form", type=click.Choice(["json", "yaml"]), default="json", show_default=True, help="Form of the output.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(allow_dash=True), help="Write to FILE (gzip if it ends in .gz), whole or not at all."
)
def generate(
    output: str | None,
    form: str,
    planted: int | None,
    worn: int | None,
    nodes: int,
    pods: int,
    seed: int,
    zones: int,
    rules: int | None,
    **others: int,
) -> None:
    """Write a synthetic snapshot; the same arguments give the same bytes."""
    _check_output(output)
    context = click.get_current_context()
    given = [name for name in others if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT]
    if planted is not None and (worn is not None or given):
        raise click.UsageError(f"--planted and --{given[0] if given else 'worn'} do not go together")
    try:
        if planted is not None:
            from instances.generate.planted import Planted
            from instances.generate.planted import planted as cut

            made = cut(Planted(nodes, pods, planted, seed=seed, zones=zones, rules=50 if rules is None else rules))
        elif worn is not None:
            from instances.generate.worn import Worn
            from instances.generate.worn import worn as age

            if "bound" in given:
                raise click.UsageError("--worn and --bound do not go together")
            for name in {"bound", "fill"} - set(given):  # a worn cluster has a default of its own
                del others[name]
            made = age(Worn(nodes, pods, seed=seed, zones=zones, gone=worn, rules=40 if rules is None else rules, **others))
        else:
            from instances.generate.generator import Parameters
            from instances.generate.generator import generate as draw

            made = draw(Parameters(nodes, pods, seed=seed, zones=zones, rules=30 if rules is None else rules, **others))
    except ValueError as error:
        raise click.UsageError(f"--{'worn' if planted is None else 'planted'}: {error}") from None
    if made.unplanted and planted is None:
        _say(f"warning: {made.unplanted} pods found no room while the rules were drawn; a complete placement may not exist")
    parts = _list_object(made.objects(), form)
    _write(output, _gzip(parts) if output is not None and output.endswith(".gz") else parts)


@main.command()
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(allow_dash=True), help="Write to FILE (gzip if it ends in .gz), whole or not at all."
)
@click.option("--context", metavar="NAME", help="kubectl's context; default: its current one.")
@click.option("--kubeconfig", metavar="FILE", type=click.Path(), help="kubectl's configuration file.")
@click.option("--kubectl", metavar="PROGRAM", default="kubectl", show_default=True, help="The program to run.")
@click.option(
    "-n", "--namespace", "namespaces", metavar="NAME", multiple=True, help="Only this namespace, and all that is in none (repeatable)."
)
@click.option("--redact/--no-redact", default=True, show_default=True, help="Keep only the fields that placement reads, or whole objects.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=60,
    show_default=True,
    callback=_positive,
    help="Give up when kubectl is silent for so long.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only errors on standard error.")
@click.option("-v", "--verbose", is_flag=True, help="Also what kubectl says there.")
def capture(output: str | None, quiet: bool, verbose: bool, **chosen: Any) -> None:
    """Write a snapshot of a running cluster, read with kubectl; secrets are never asked for."""
    _check_noise(quiet, verbose)
    _check_output(output)
    from live.capture import CaptureOptions
    from live.capture import capture as read

    try:
        options = CaptureOptions(**chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    heard = (lambda name, count: _say(f"{name}: {count}")) if verbose else None
    found = _input(lambda: read(options, on_kind=heard))
    if not quiet:
        _warn(found.problems, verbose=verbose)
        for note in found.notes if verbose else ():
            _say(note)
        _say("captured: " + (", ".join(f"{count} {kind}" for kind, count in found.counts.items()) or "nothing"))
    parts = found.parts()
    _write(output, _gzip(parts) if output is not None and output.endswith(".gz") else parts)
    if found.problems:
        _leave(INCOMPLETE)


def _list_object(items: Iterable[object], form: str) -> Iterator[bytes]:
    """A v1 List, item by item: as a whole, the objects of a large cluster take gigabytes."""
    import msgspec

    from report.documents import yaml_text

    if form == "yaml":
        yield b"apiVersion: v1\nkind: List\nitems:\n"
        for item in items:
            yield yaml_text.dump([item]).encode()
        return
    lead = b'{"apiVersion":"v1","kind":"List","items":[' + b"\n"
    for item in items:
        yield lead + msgspec.json.encode(item)
        lead = b",\n"
    yield b"\n]}\n"


def _gzip(parts: Iterable[bytes]) -> Iterator[bytes]:
    """A gzip stream without a name and a time, so that equal input gives equal bytes."""
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


# --- running ----------------------------------------------------------------------------------------------------------


def _check_noise(quiet: bool, verbose: bool) -> None:
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other")


def _check_output(output: str | None) -> None:
    """Refuse a target that cannot be written before a long run, not after it."""
    if output is not None and output != "-":
        from report.documents.output import check_target

        check_target(output)


def _input(read: Callable[[], _T]) -> _T:
    from models.snapshot.snapshot import InputError

    try:
        return read()
    except InputError as error:
        _fail(error.problems)


def _policy(path: str | None, *, strategy: Any = None, shorthand: Any = None) -> Policy:
    """The policy file with what the command line says instead."""
    from msgspec.structs import replace

    from models.documents.policy import DEFAULT, read

    policy = _input(lambda: read(path)) if path is not None else DEFAULT
    changed = {name: value for name, value in (("strategy", strategy), ("shorthand", shorthand)) if value is not None}
    return replace(policy, **changed) if changed else policy


def _load(paths: Sequence[str], *, quiet: bool, verbose: bool, policy: Policy | None = None) -> Snapshot:
    """Read a snapshot and say what is odd about it; with a ``policy`` also about its container-affinity annotations."""
    from models.snapshot.snapshot import load

    snapshot = _input(lambda: load(paths))
    warnings = list(snapshot.warnings)
    if policy is not None:
        from models.numa.annotations import has_hints

        if any(has_hints(pod) for pod in snapshot.pods):
            from models.numa.container_classes import warnings as hint_warnings

            warnings += _input(lambda: hint_warnings(snapshot, policy))
    if not quiet:
        _warn(warnings, verbose=verbose)
    if verbose:
        _say(f"read {len(snapshot.nodes)} nodes and {len(snapshot.pods)} pods")
        if snapshot.ignored:
            _say("ignored: " + ", ".join(f"{count} {kind}" for kind, count in sorted(snapshot.ignored.items())))
    return snapshot


def _warn(warnings: Sequence[str], *, verbose: bool) -> None:
    shown = warnings if verbose else warnings[:_WARNINGS]
    for warning in shown:
        _say(f"warning: {warning}")
    if len(shown) < len(warnings):
        _say(f"warning: {len(warnings) - len(shown)} more like these (-v shows all)")


def _check_stdin(paths: Sequence[str]) -> None:
    if paths.count("-") > 1:
        raise click.UsageError("only one of the inputs can be standard input")


def _rollout(value: str | None) -> tuple[str | None, str | None]:
    """NAME[=FILE] as name and file."""
    if value is None:
        return None, None
    name, _, path = value.partition("=")
    if not name or (not path and "=" in value):
        raise click.UsageError(f"--rollout: {value!r} is not of the form NAME or NAME=FILE")
    return name, path or None


def _manifests(paths: Sequence[str]) -> Snapshot:
    from models.snapshot.snapshot import load

    return _input(lambda: load(paths, manifests=True))


def _edits(chosen: Mapping[str, Any], manifests: Sequence[str]) -> Edits | None:
    """The what-if edits of the command line, None if there are none."""
    from models.documents.placement import Edits

    if chosen["partial"] and not manifests:
        raise click.UsageError("--partial needs manifests, given with -w")
    found = Edits(
        addNodes=list(chosen["add_nodes"]),
        removeNodes=list(chosen["remove_nodes"]),
        removeDomains=list(chosen["remove_domains"]),
        replicas=list(chosen["replicas"]),
        partial=chosen["partial"],
    )
    return None if found == Edits() else found


@dataclasses.dataclass
class _Edited:
    """A snapshot with manifests and what-if edits: the workloads that were added, and what they ask for in vain."""

    snapshot: Snapshot
    workloads: list[str] = dataclasses.field(default_factory=list)
    unmodelled: list[Unmodelled] = dataclasses.field(default_factory=list)


def _edit(snapshot: Snapshot, manifests: Sequence[str], edits: Edits | None, *, quiet: bool, verbose: bool) -> _Edited:
    """The snapshot with manifests and what-if edits, and a word on what is odd about them."""
    if not manifests and edits is None:
        return _Edited(snapshot)
    from models.documents.placement import Edits
    from models.edits.edits import apply

    added = _manifests(manifests) if manifests else None
    known = len(snapshot.warnings)
    found = _input(lambda: apply(snapshot, added, edits or Edits()))
    if not quiet:
        _warn(found.snapshot.warnings[known:], verbose=verbose)
    return _Edited(found.snapshot, found.workloads, found.unmodelled)


def _place(snapshot: Snapshot, options: Options, display: Quiet, stop: threading.Event, began: float) -> Placement:
    from solver.solve import place

    return _in_thread(partial(place, snapshot, options), display, stop, began)


def _in_thread(solve: Callable[..., _T], display: Quiet, stop: threading.Event, began: float) -> _T:
    """Solve in a thread, since Python hears signals only between the steps of its main thread. The first ^C sets ``stop``, the
    second raises KeyboardInterrupt."""
    from checker.violation import InternalFault

    done = threading.Event()
    result: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result.append(solve(on_progress=display.update, stop=stop, began=began))
        except BaseException as error:  # noqa: BLE001 (handed to the main thread, which raises it)
            errors.append(error)
        finally:
            done.set()

    with _interrupts() as interrupts:
        threading.Thread(target=work, name="solve", daemon=True).start()
        while not done.wait(0.1):
            count = interrupts()
            if count and not stop.is_set():
                stop.set()
                display.say("kubestow: stopping with the best result so far (^C again to abort at once)")
            if count > 1:
                raise _Aborted
        if interrupts():
            stop.set()
    if errors:
        if isinstance(errors[0], InternalFault):
            _fail([f"internal fault, please report it: {errors[0]}"])
        raise errors[0]
    return result[0]


class _Aborted(KeyboardInterrupt):
    """A second ^C, while a solve still runs in its thread."""


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], int]]:
    """Count SIGINTs instead of raising KeyboardInterrupt; gives the function that says how many there were so far. Leaves the signal
    alone outside the main thread."""
    received: list[int] = []

    def take(number: int, frame: object) -> None:
        received.append(number)

    def count() -> int:
        # Again and again, since CP-SAT may set the signal back to its default, which would kill the process.
        signal.signal(signal.SIGINT, take)
        return len(received)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    before = signal.signal(signal.SIGINT, take)
    try:
        yield count
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(code: int) -> NoReturn:
    click.get_current_context().exit(code)


# --- rendering --------------------------------------------------------------------------------------------------------


def _default_format(output: str | None) -> str:
    return "table" if output in (None, "-") and sys.stdout is not None and sys.stdout.isatty() else "json"


def _surface(output: str | None) -> Surface:
    from report.terminal import canvas

    return canvas.standard_output() if output in (None, "-") else canvas.Surface()


def _draw(parts: Iterator[RenderableType], surface: Surface) -> bytes:
    from report.terminal.canvas import render

    return render(list(parts), surface)


def _check_answer(result: Placement | RebalancePlan, stop: threading.Event, *, strict: bool) -> None:
    """End the command where there is nothing to be written."""
    if stop.is_set() and result.status == "unknown":
        _fail(["interrupted before there was an answer; nothing was written"], INTERRUPTED)
    if strict and result.unmodelled:
        _fail([f"not modelled: {u.pod}: {u.field}: {u.effect}" for u in result.unmodelled], VIOLATED)


def _render_plan(plan: RebalancePlan, snapshot: Snapshot, form: str, output: str | None) -> bytes:
    from report.documents import results

    if form == "table":
        from report.terminal.rebalance_plan import plan_table

        surface = _surface(output)
        return _draw(plan_table(plan, snapshot, surface), surface)
    if form == "kubectl":
        from report.kubectl.script import script

        return script(plan, snapshot)
    return results.encode(results.plan_document(plan), "yaml" if form == "yaml" else "json")


def _render_placement(placement: Placement, snapshot: Snapshot, form: str, output: str | None) -> bytes:
    from report.documents import results

    if form == "table":
        from report.terminal import placement as terminal_placement

        surface = _surface(output)
        return _draw(terminal_placement.placement(placement, snapshot, surface), surface)
    if form == "kubectl":
        return results.bindings(placement, snapshot)
    return results.encode(results.placement_document(placement), "yaml" if form == "yaml" else "json")


def _write(output: str | None, data: bytes | Iterable[bytes]) -> None:
    from report.documents.output import write_file, write_stdout

    parts = (data,) if isinstance(data, bytes) else data
    if output is None or output == "-":
        write_stdout(parts)
    else:
        write_file(output, parts)


if __name__ == "__main__":
    main()
