"""One case: a command with input of which something is spoiled, all drawn from one number."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from kubestow.models.documents import placement as placements
from kubestow.models.documents import rebalance_plan as plans
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import InputError, from_objects, load
from tests.fuzz import mutate, seeds
from tests.fuzz.meaning import meaning, world
from tests.fuzz.mutate import STRINGS
from tests.fuzz.seeds import Object

#: The exit codes of each command, in addition to 2 where an argument is spoiled.
CODES: Final = {
    "solve": (0, 1, 3, 4), "rebalance": (0, 1, 3, 4), "verify": (0, 1, 4), "explain": (0, 1), "audit": (0, 1, 4), "report": (0, 1, 4),
    "capture": (0, 1, 3), "nodes": (0, 1), "fit": (0, 1, 3, 4), "size": (0, 1, 3, 4), "survive": (0, 1, 3, 4), "upgrade": (0, 1, 3, 4),
    "check": (0, 1, 3, 4),
}  # fmt: skip
_COMMANDS: Final = (
    ("solve",) * 6
    + ("rebalance",) * 5
    + ("verify",) * 3
    + ("explain",) * 3
    + ("audit",) * 3
    + ("report",) * 3
    + ("nodes",) * 2
    + ("fit", "size", "survive", "upgrade")
)
#: Of the commands about capacity, that read a catalogue or a template besides.
CATALOGUE: Final = seeds.INSTANCES / "catalogue.yaml"
OLD: Final = b"an earlier result\n"

_T = TypeVar("_T")


@dataclass
class Case:
    """``command`` and ``arguments`` for the command line; ``inputs``: those that ``verify`` takes as well; ``output``: the file that is to
    be written, if any. ``form``: of the result. ``loose``: arguments are spoiled too, so that wrong usage may come of it."""

    command: str
    given: bytes | None = None
    inputs: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    output: Path | None = None
    form: str = "json"
    loose: bool = False

    def words(self) -> list[str]:
        """All of the command line."""
        return [self.command, *self.inputs, *self.arguments]


class _Maker:
    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(f"case-{seed}")
        self.folder = folder
        self.case = Case(self.rng.choice(_COMMANDS))
        self.files: dict[str, bytes] = {}  # written unchanged, because of their hash

    def make(self) -> Case:
        rng, case = self.rng, self.case
        spoiled = rng.choices(("snapshot", "manifests", "policy", "result", "arguments", "all"), (52, 8, 8, 12, 12, 8))[0]
        document: Object | None = None
        added: list[Object] = []
        if case.command == "verify" or (case.command == "report" and rng.random() < 0.6) or spoiled == "result":
            case.command = case.command if case.command in ("verify", "report") else rng.choice(("verify", "report"))
            found = seeds.result(rng)
            objects, added, document = found.objects, found.manifests, found.document
            self.files = dict(zip((str(objects), str(added)), found.files, strict=True))
        else:
            objects = seeds.snapshot(rng)
        planned = document is not None and document["kind"] == "RebalancePlan"
        if case.command in ("solve", "explain", "audit") and (spoiled == "manifests" or rng.random() < 0.1):
            added = seeds.manifests(rng, objects)
        elif document is not None and not planned and spoiled == "manifests":
            added = added or seeds.manifests(rng, objects)
        seen = world(objects)
        if spoiled in ("snapshot", "all"):
            objects = self.spoiled(objects, self.objects, is_snapshot)
        self.snapshot(objects, coarse=spoiled in ("snapshot", "all"))
        if added:
            if spoiled in ("manifests", "all"):
                added = self.spoiled(added, self.objects, is_manifests)
            case.inputs += ["-w", self.put("manifests", added, coarse=spoiled in ("manifests", "all"))]
        if document is not None:
            if spoiled in ("snapshot", "all") and rng.random() < 0.8:
                document["snapshot"]["sha256"] = self.sha256()
            if spoiled in ("result", "all"):
                document = self.spoiled(document, self.structure, _is_result)
            case.inputs += ["--result", self.put("result", document, coarse=spoiled in ("result", "all"), whole=True)]
        elif case.command not in ("verify", "nodes") and (spoiled == "policy" or rng.random() < 0.15):
            policy: Any = rng.choice(seeds.POLICIES)
            if spoiled in ("policy", "all"):
                policy = self.spoiled(policy, self.structure, _is_policy)
            case.arguments += ["--policy", self.put("policy", policy, coarse=spoiled in ("policy", "all"), whole=True)]
        self.options(seen.nodes, seen.pods, objects)
        if spoiled in ("arguments", "all"):
            case.loose = True
            self.spoil_arguments()
        self.target()
        return case

    # --- input ------------------------------------------------------------------------------------------------------

    def spoiled(self, content: _T, change: Callable[[Any], Any], good: Callable[[Any], bool]) -> _T:
        """``content`` with some changes; mostly such as leave it ``good``, or no rule would ever see it."""
        rng = self.rng
        mild = rng.random() < 0.75
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
            for _ in range(6):
                found = change(copy.deepcopy(content))
                if not mild or good(found):
                    content = found
                    break
        return content

    def structure(self, content: Any) -> Any:
        return mutate.structure(self.rng, content)

    def objects(self, found: list[Any]) -> list[Any]:
        if self.rng.random() < 0.7:
            meaning(self.rng, found)
        else:
            mutate.structure(self.rng, found)
        return found

    def snapshot(self, objects: list[Any], *, coarse: bool) -> None:
        """The snapshot as one file, two, a folder, or standard input."""
        rng, case = self.rng, self.case
        roll = 0.0 if str(objects) in self.files else rng.random()
        if roll < 0.75:
            case.inputs.append(self.put("snapshot", objects, coarse=coarse))
        elif roll < 0.85:
            half = len(objects) // 2
            case.inputs += [self.put(f"snapshot{i}", part, coarse=coarse) for i, part in enumerate((objects[:half], objects[half:]))]
        elif roll < 0.92:
            folder = self.folder / "snapshots"
            folder.mkdir()
            for i in range(0, len(objects), 5):
                self.put(f"snapshots/{i}", objects[i : i + 5], coarse=coarse and i == 0)
            case.inputs.append(str(folder))
        else:
            case.given = Path(self.put("stdin", objects, coarse=coarse)).read_bytes()
            case.inputs.append("-")

    def sha256(self) -> str:
        """The hash of the snapshot as it was written, so that a result is taken for one of it."""
        try:
            return load([path for path in self.case.inputs if path not in ("-w", "-")]).sha256
        except InputError:
            return ""

    def put(self, name: str, content: Any, *, coarse: bool, whole: bool = False) -> str:
        """Write a file in one of the forms that input may have; ``coarse``: its bytes may be spoiled as well. ``whole``: one document."""
        rng = self.rng
        data, suffix = self.encode(content, whole=whole)
        if str(content) in self.files:
            data, suffix = self.files[str(content)], ".json"
        damaged = coarse and rng.random() < 0.15
        if damaged and rng.random() < 0.8:
            for _ in range(rng.choice((1, 1, 2, 5))):
                data = mutate.text(rng, data)
        if rng.random() < 0.1:
            data, suffix = mutate.packed(rng, data), f"{suffix}.gz"
            if damaged:
                data = mutate.text(rng, data)
        path = self.folder / f"{name}{suffix}"
        path.write_bytes(data)
        return str(path)

    def encode(self, content: Any, *, whole: bool) -> tuple[bytes, str]:
        rng = self.rng
        wrap = {"apiVersion": "v1", "kind": "List", "items": content} if not whole and rng.random() < 0.7 else content
        if rng.random() < 0.6:
            text = json.dumps(wrap, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5)
            return text.encode("utf-8", "surrogatepass"), rng.choice((".json", ".json", ".yaml"))
        several = not whole and isinstance(content, list) and rng.random() < 0.6
        flow, allow = rng.choice((None, False)), rng.random() < 0.5
        text = yaml.dump_all(content if several else [wrap], Dumper=yaml.SafeDumper, default_flow_style=flow, allow_unicode=allow)
        return text.encode("utf-8", "surrogatepass"), ".yaml"

    # --- arguments --------------------------------------------------------------------------------------------------

    def options(self, nodes: Sequence[str], pods: Sequence[str], objects: list[Any]) -> None:
        """Options that go together, of values that mean something."""
        rng, words = self.rng, self.case.arguments
        node, pod = rng.choice([*nodes, "n0"]), rng.choice([*pods, "p0"])
        searches = [
            "--time-limit",
            rng.choice(("0.2", "0.5", "0.01")),
            "--engine",
            rng.choice(("greedy",) * 5 + ("exact", "exact", "lns", "auto")),
        ]
        searches += ["--workers", "1", *(["--deterministic"] if rng.random() < 0.2 else []), *(["--strict"] if rng.random() < 0.03 else [])]
        edits = [
            ["--add-nodes", f"{rng.choice((0, 1, 2))}:{node}"], ["--remove-node", node], ["--remove-domain", rng.choice(("zone=z1",
            "disk=ssd"))],
            ["--replicas", f"{rng.choice(('w0', 'a', 'Deployment/default/w0'))}={rng.choice((0, 1, 3))}"],
        ]  # fmt: skip
        edit = rng.choice(edits) if rng.random() < 0.12 else []
        match self.case.command:
            case "solve":
                deployments = [o["metadata"]["name"] for o in objects if _is_deployment(o)]
                words += searches + edit
                if deployments and "-w" not in self.case.inputs and rng.random() < 0.5:
                    template = f"={self.put('template', seeds.manifests(rng, objects), coarse=True)}" if rng.random() < 0.3 else ""
                    words += ["--rollout", rng.choice(deployments) + template]
                    self.case.form = rng.choice(("json", "json", "yaml", "table"))
                elif not edit and rng.random() < 0.15:
                    words += ["--from-scratch"]
                    self.case.form = rng.choice(("json", "yaml", "table"))
                else:
                    plain = not edit and "-w" not in self.case.inputs
                    self.case.form = rng.choice(("json", "json", "json", "yaml", "table", "wide", "csv", *(["kubectl"] if plain else [])))
                words += ["--strategy", rng.choice(("spread", "pack", "none"))] if rng.random() < 0.3 else []
            case "rebalance":
                goals = rng.choice((["repair"], ["improve"], ["consolidate"], ["admit"], ["admit", "repair", "consolidate", "improve"], []))
                drain = rng.choice((node, node, "zone=z1", "disk in (ssd)", "!zone")) if not goals or rng.random() < 0.2 else None
                words += searches + [word for goal in goals for word in ("--goal", goal)] + (["--drain", drain] if drain else [])
                words += ["--allow-eviction"] if rng.random() < 0.4 else []
                words += ["--max-moves", str(rng.choice((0, 1, 3)))] if rng.random() < 0.2 else []
                words += ["--also-move", "bare"] if rng.random() < 0.6 else []
                self.case.form = rng.choice(("json", "json", "json", "yaml", "table", "wide", "csv"))
            case "explain":
                which = (
                    ["--pod", f"default/{pod}"],
                    ["--workload", pod],
                    ["--node", node],
                    ["--per-node"],
                    ["--affinity", f"default/{pod}"],
                )
                words += ["--time-limit", "0.5", *edit, *rng.choice(((), (), *which))]
                self.case.form = rng.choice(("json", "json", "yaml", "table", "wide", "csv"))
            case "audit":
                words += ["--time-limit", "5", "--fail-on", rng.choice(("error", "warning", "info", "never"))]
                words += ["--machine-label", rng.choice(("rack", "zone"))] if rng.random() < 0.2 else []
                self.case.form = rng.choice(("json", "yaml", "table", "wide", "csv", "junit", "sarif", "github", "gitlab"))
            case "report":
                words += ["--time-limit", "0.5"]
                self.case.form = "html"
            case "nodes":
                words += rng.choice((["--by", "zone"], ["--by", "namespace"], ["--sort", "free-cpu"], ["-l", "zone=z1"], []))
                self.case.form = rng.choice(("json", "json", "yaml", "table", "wide", "csv"))
            case "fit" | "size" | "survive" | "upgrade":
                words += self.capacity(objects, node)
                self.case.form = rng.choice(("json", "json", "yaml", "table", "wide", "csv"))
            case _:
                self.case.form = rng.choice(("json", "yaml", "table"))
        if self.case.command in ("solve", "rebalance", "explain") and rng.random() < 0.1:
            words += rng.choice((["--include-gated"], ["--daemon-namespaces", "default,other"], ["--shorthand", "symmetric"]))
        words += rng.choice(([], [], ["-q"], ["-v"]))
        words += ["-f", self.case.form] if self.case.form != "html" else []

    def capacity(self, objects: list[Any], node: str) -> list[str]:
        """Options of the commands about capacity, with templates and catalogues of which some are spoiled."""
        rng, case = self.rng, self.case
        words = ["--time-limit", rng.choice(("0.5", "1")), "--workers", "1", *(["--strict"] if rng.random() < 0.03 else [])]
        if case.command == "fit" and "-w" not in case.inputs:
            case.inputs += ["-w", self.put("manifests", seeds.manifests(rng, objects), coarse=False)]
        if case.command == "size" or (case.command == "survive" and rng.random() < 0.3):
            catalogue: Any = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))
            spoilt = rng.random() < 0.5
            if spoilt:
                catalogue = self.spoiled(catalogue, self.structure, lambda _: True)
            words += ["--catalogue", self.put("catalogue", catalogue, coarse=spoilt, whole=True)]
        pool = rng.choice(("zone=z1", "disk in (ssd)", "!zone", f"kubernetes.io/hostname={node}", "zone"))
        match case.command:
            case "fit":
                return words + rng.choice(([], [], ["--keep", "20"], ["--keep", "10:zone"], ["--with-pending"]))
            case "size":
                return words + rng.choice(([], [], ["--from-scratch"], ["--pool", pool], ["--survive", "node"], ["--kinds", "1"]))
            case "survive":
                more = rng.choice(([], ["--at-once", "2"], ["--priority", "1"], ["--priority", "1", "--preemption"], ["--no-remedy"]))
                return [*words, "--fail", rng.choice(("node", "node", "zone", "disk")), *more]
            case _:
                more = rng.choice(([], ["--surge", "0", "--max-unavailable", "1"], ["--surge", "50%"], ["--by", "zone"]))
                return [*words, "--pool", pool, *more]

    def spoil_arguments(self) -> None:
        """Odd values for options that take free text or numbers, and options that may not go together."""
        rng, words = self.rng, self.case.arguments
        odd = rng.choice(STRINGS).replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
        number = rng.choice(("0", "-1", "1", "2147483648", "9" * 30, "1e9", "x", "", "1:", "\u0661", "0x1", "99999", " 1"))
        free = {
            "solve": ("--add-nodes", "--remove-node", "--remove-domain", "--replicas", "--rollout", "--daemon-namespaces", "--policy",
            "-w"),
            "rebalance": ("--drain", "--drain", "--policy", "--daemon-namespaces"), "verify": ("--result", "-w"),
            "explain": ("--pod", "--workload", "--node", "--affinity", "--add-nodes", "--replicas", "--remove-domain", "-w"),
            "audit": ("--machine-label", "--stage-label", "--daemon-namespaces", "--policy"), "report": ("--result", "-w", "--policy"),
            "nodes": ("--selector", "-l"),
            "fit": ("--keep", "-w", "--add-nodes", "--catalogue"), "size": ("--pool", "--survive", "--catalogue", "-w"),
            "survive": ("--fail", "--catalogue", "--buy", "--replicas"),
            "upgrade": ("--pool", "--surge", "--max-unavailable", "--by", "--to"),
        }  # fmt: skip
        counts = {
            "solve": ("--time-limit", "--seed", "--workers"), "audit": ("--time-limit",), "report": ("--time-limit",), "verify": (),
            "rebalance": ("--max-moves", "--max-evictions", "--max-freed", "--min-gain", "--max-moves-per-workload", "--max-waves"),
            "explain": ("--time-limit",), "nodes": (), "fit": ("--time-limit", "--seed"), "size": ("--at-once", "--priority", "--kinds"),
            "survive": ("--at-once", "--priority"), "upgrade": ("--time-limit", "--seed"),
        }  # fmt: skip
        for _ in range(rng.choice((1, 1, 2))):
            option = rng.choice(free[self.case.command])
            shapes = (odd, f"{number}:n0", f"{number}:{odd}", f"a={number}", f"{odd}={number}", f"zone={odd}", f"{odd}/a", "default/",
            "a/b/c/d",
                      "zone in (", "zone in (z1,", "zone notin (z1),!x,=", "zones=", "zones=x", "x" * 5000, "n0,n0", ",", "zone!=z1",
                      "!")  # fmt: skip
            words += rng.choice(([option, rng.choice(shapes)], [f"{option}{'=' if option.startswith('--') else ''}{rng.choice(shapes)}"]))
            if counts[self.case.command] and rng.random() < 0.3:
                words += [rng.choice(counts[self.case.command]), number]
            if rng.random() < 0.1:
                words += [rng.choice(("--from-scratch", "--partial", "--per-node", "--allow-eviction", "--strict", "-q", "-v", odd))]

    def target(self) -> None:
        """Standard output, a new file, or one that is there."""
        roll = self.rng.random()
        if roll < 0.6:
            return
        folder = self.folder / "out"
        folder.mkdir()
        self.case.output = folder / "result"
        if roll > 0.8:
            self.case.output.write_bytes(OLD)
        self.case.arguments += ["-o", str(self.case.output)]


def _is_deployment(each: Any) -> bool:
    return isinstance(each, dict) and each.get("kind") == "Deployment" and isinstance(each.get("metadata"), dict) and bool(
        isinstance(each["metadata"].get("name"), str) and each["metadata"]["name"]
    )  # fmt: skip


def is_snapshot(objects: Any) -> bool:
    """Return whether objects are read as a snapshot."""
    return is_manifests(objects) and _passes(lambda: from_objects(objects))


def is_manifests(objects: Any) -> bool:
    """Return whether objects are read as manifests."""
    return isinstance(objects, list) and _passes(lambda: json.dumps(objects, allow_nan=False, ensure_ascii=False).encode()) and (
        _passes(lambda: from_objects(objects, manifests=True))
    )  # fmt: skip


def _is_result(document: Any) -> bool:
    return _passes(
        lambda: placements.from_builtins(document, plans.RebalancePlan if document["kind"] == "RebalancePlan" else placements.Placement)
    )


def _is_policy(document: Any) -> bool:
    return _passes(lambda: msgspec.convert(document, Policy))


def _passes(read: Callable[[], object]) -> bool:
    try:
        read()
    except (InputError, msgspec.ValidationError, TypeError, KeyError, ValueError):
        return False
    return True


def make(seed: int, folder: Path) -> Case:
    """The case of a number; its files go into an empty ``folder``."""
    return _Maker(seed, folder).make()
