"""Results as JSON and YAML documents, and the reader of such documents by their stated kind."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from kubestow.models.documents import answers, capacity
from kubestow.models.documents import placement as placements
from kubestow.models.documents import rebalance_plan as plans
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.placement import API_VERSION, Cause, Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.execution.scheduler_needed import scheduler_needed
from kubestow.models.kube.feature_gates import DEFAULT as DEFAULT_GATES
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot import duplicate_keys, sources, yaml_reader
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents import yaml_text

if TYPE_CHECKING:  # importing numpy takes longer than reading a result
    from kubestow.solver.explain.affinity_matrix import Matrix
    from kubestow.solver.explain.per_node import PodVerdict

Format = Literal["json", "yaml"]

#: Results of searches, which ``verify`` and ``report`` read.
Result = Placement | RebalancePlan | Capacity

#: Reader by kind of document.
_READERS: Final[dict[str, Callable[[object], Result]]] = {
    "Placement": partial(placements.from_builtins, type_=Placement),
    "RebalancePlan": partial(placements.from_builtins, type_=RebalancePlan),
    **{kind: partial(capacity.from_builtins, kind=kind) for kind in capacity.KINDS},
}
_KINDS: Final = f"{', '.join([*_READERS][:-1])} or {[*_READERS][-1]}"


class RuleViolation(Protocol):
    """A :class:`kubestow.checker.violation.Violation`: a rule that an assignment breaks, and the reason."""

    @property
    def pod(self) -> str: ...
    @property
    def node(self) -> str | None: ...
    @property
    def rule(self) -> str: ...
    @property
    def why(self) -> str: ...


# --- writing ----------------------------------------------------------------------------------------------------------


def encode(document: object, form: Format) -> bytes:
    """Return a document of plain values as UTF-8 text, with keys in the given order."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    return yaml_text.dump(document).encode()


def result_document(result: Result) -> dict[str, Any]:
    if isinstance(result, Placement):
        return placements.to_builtins(result)
    return plans.to_builtins(result) if isinstance(result, RebalancePlan) else capacity.to_builtins(result)


def verification(
    violations: Iterable[RuleViolation],
    says: Sequence[str] = (),
    not_checked: Sequence[str] = (),
    notes: Sequence[str] = (),
    journal: answers.CarriedOut | None = None,
) -> answers.Verification:
    found = [answers.Violation(v.pod, v.node, v.rule, v.why) for v in violations]
    return answers.Verification(not found, found, list(says), list(not_checked), list(notes), journal)


def violations_document(violations: Iterable[RuleViolation], *more: Any) -> dict[str, Any]:
    """Return an :class:`answers.Verification`. ``more`` is as for :func:`verification`."""
    return plain(verification(violations, *more))


def nodes_per_rule(verdict: PodVerdict) -> dict[str, int]:
    """Return the number of rejected nodes by rule."""
    return dict(sorted(Counter(chain.from_iterable(verdict.rejected.values())).items()))


def explanation(
    verdicts: Iterable[PodVerdict], causes: Sequence[Cause] = (), notes: Sequence[str] = (), gates: FeatureGates = DEFAULT_GATES
) -> answers.Explanation:
    """Return the number of feasible nodes per pod and of rejected nodes per rule, with causes if given."""
    counts = [
        answers.PodCounts(
            v.pod, len(v.feasible), nodes_per_rule(v), v.runs_on, list(v.rejected.get(v.runs_on or "", [])), v.scores, v.totals()
        )
        for v in verdicts
    ]
    return answers.Explanation(counts, list(causes), list(notes), gates.version, dict(gates.given))


def node_explanation(
    verdicts: Iterable[PodVerdict], notes: Sequence[str] = (), gates: FeatureGates = DEFAULT_GATES
) -> answers.NodeExplanation:
    """Return the feasible nodes per pod and, for every other node, all rules that reject it."""
    each = [answers.PodNodes(v.pod, v.feasible, v.rejected, v.runs_on) for v in verdicts]
    return answers.NodeExplanation(each, list(notes), gates.version, dict(gates.given))


def explain_document(
    verdicts: Iterable[PodVerdict],
    *,
    per_node: bool,
    causes: Sequence[Cause] = (),
    notes: Sequence[str] = (),
    gates: FeatureGates = DEFAULT_GATES,
) -> dict[str, Any]:
    """Return an :class:`answers.NodeExplanation`, or an :class:`answers.Explanation`."""
    if not per_node:
        return plain(explanation(verdicts, causes, notes, gates))
    found = node_explanation(verdicts, notes, gates)
    # Equal pods share their lists, which a deep copy would multiply.
    pods = [{field: value for field, value in msgspec.structs.asdict(pod).items() if value is not None} for pod in found.pods]
    said = {"notes": found.notes, "kubernetesVersion": found.kubernetesVersion, "featureGates": found.featureGates}
    return {"pods": pods} | {field: value for field, value in said.items() if value}


def affinity_document(matrix: Matrix) -> dict[str, Any]:
    """Return an :class:`answers.ContainerAffinity`."""
    pairs = [answers.ContainerPair(p.source, p.target, p.weight) for p in matrix.pairs]
    return plain(answers.ContainerAffinity(matrix.pod, list(matrix.containers), pairs))


def plain(answer: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of an answer as plain values."""
    found: dict[str, Any] = msgspec.to_builtins(answer)
    return found


def bindings(placement: Placement, snapshot: Snapshot) -> bytes:
    """Return the placement as ``v1`` Binding objects in bind order, one JSON document per line, for ``kubectl
    create -f -``.

    Pods that are already bound get no Binding, nor do those of :func:`without_binding`. Because of its uid, a
    Binding is rejected for a recreated pod.
    """
    pods = {pod_key(pod): pod for pod in snapshot.pods}
    encoder = msgspec.json.Encoder()
    lines = []
    for assignment in sorted(placement.assignments, key=lambda a: a.order):
        pod = pods.get(assignment.pod)
        if pod is None or pod.spec.nodeName or scheduler_needed(pod, snapshot) is not None:
            continue
        namespace, _, name = assignment.pod.rpartition("/")
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace} | ({"uid": pod.metadata.uid} if pod.metadata.uid else {}),
            "target": {"apiVersion": "v1", "kind": "Node", "name": assignment.node},
        }
        lines.append(encoder.encode(binding))
    return b"".join(line + b"\n" for line in lines)


def without_binding(placement: Placement, snapshot: Snapshot) -> list[str]:
    """Return a sentence for each placed pending pod that a Binding would strand, in bind order."""
    pods = {pod_key(pod): pod for pod in snapshot.pods if not pod.spec.nodeName}
    found = []
    for assignment in sorted(placement.assignments, key=lambda a: a.order):
        pod = pods.get(assignment.pod)
        if pod is not None and (reason := scheduler_needed(pod, snapshot)) is not None:
            found.append(f"{assignment.pod} gets no Binding and is left to the scheduler (planned for {assignment.node}): {reason}")
    return found


# --- reading ----------------------------------------------------------------------------------------------------------


def read_result(path: str) -> Result:
    """Read a result of any kind from a JSON or YAML file (optionally ``.gz``), or from standard input for ``-``.

    Raises:
        InputError: The file cannot be read or is not a result. The message has the file, the field and the expected
            value.
    """
    return read_with_digest(path)[0]


def read_with_digest(path: str) -> tuple[Result, str]:
    """Read a document as :func:`read_result` does, and also return the SHA-256 of its text, by which journals
    identify it.

    The digest is that of the file unless it is compressed.
    """
    text = _text(path)
    return _read(path, _KINDS, lambda: _result(_decode(text, _KINDS))), hashlib.sha256(text).hexdigest()


def _result(document: object) -> Result:
    kind = document.get("kind") if isinstance(document, dict) else None
    if isinstance(kind, str) and kind in _READERS:
        return _READERS[kind](document)
    if isinstance(document, dict) and document.get("apiVersion") == API_VERSION:
        raise msgspec.ValidationError(f"expected {_KINDS}, got {shorten(kind)} - at `$.kind`")
    return placements.from_builtins(document, Placement)


def as_read(result: Result) -> Result:
    """Return a result as if read back from its document.

    Raises:
        InputError: A field has a wrong type or value.
    """
    return _read(result.kind, result.kind, lambda: _result(result_document(result)))


def _text(path: str) -> bytes:
    try:
        return sources.read(path)
    except ValueError as error:
        raise InputError([f"{sources.label(path)}: {error}"]) from error


def _read(path: str, what: str, convert: Callable[[], Result]) -> Result:
    """Return the converted result, and report problems with the path. ``what`` is the expected kind, for messages."""
    try:
        return convert()
    except msgspec.ValidationError as error:
        problem = _with_path(str(error), what)
    except RecursionError:
        problem = "nested too deeply"
    except ValueError as error:
        problem = str(error)
    raise InputError([f"{sources.label(path)}: {problem}"])


def _decode(raw: bytes, what: str) -> object:
    if not raw.strip():
        raise ValueError(f"empty, expected a {what} document")
    if not raw.lstrip().startswith(b"{"):
        return _one_yaml_document(raw, what)
    for _, problem in duplicate_keys.problems(raw):
        raise ValueError(problem)
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        # A YAML flow mapping looks like JSON. If it is neither, the JSON error is more helpful.
        try:
            return _one_yaml_document(raw, what)
        except yaml_reader.YamlError:
            raise error from None


def _one_yaml_document(raw: bytes, what: str) -> object:
    found = [document for document in yaml_reader.documents(raw) if document is not None]
    if len(found) != 1:
        raise ValueError(f"expected one {what} document, found {len(found)} documents")
    return found[0]


def _with_path(message: str, what: str) -> str:
    """Return msgspec's ``complaint - at `$.a[0].b``` as ``a[0].b: complaint``."""
    match = re.fullmatch(r"(.*) - at `(?:key in )?\$\.?(.*?)`", message, re.DOTALL)
    if match is None:
        return f"not a {what}: {message}"
    return f"{match[2]}: {match[1]}" if match[2] else match[1]
