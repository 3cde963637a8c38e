"""Terms of a workload that select other pods by label: pod affinity, anti-affinity and topology spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kubestow.audit.view.finding import some
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.unknown_namespaces import undecided_namespaces
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import preferred_terms
from kubestow.models.kube.selectors import Selector, canonical, label_key_requirements

HOSTNAME: Final = "kubernetes.io/hostname"
PLUGINS: Final = {"affinity": "InterPodAffinity", "anti-affinity": "InterPodAffinity", "spread": "PodTopologySpread"}
_PARTS: Final[tuple[tuple[str, Literal["affinity", "anti-affinity"]], ...]] = (
    ("podAffinity", "affinity"),
    ("podAntiAffinity", "anti-affinity"),
)
_REQUIRED: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution")
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class PodTerm:
    """One term of pod affinity, anti-affinity or topology spread.

    Attributes:
        kind: affinity, anti-affinity or spread.
        path: Field of the term.
        required: True for a hard term.
        key: Topology key.
        selector: Label selector including matchLabelKeys and mismatchLabelKeys. None for a nil selector.
        namespaces: Namespaces in which the term selects pods, among those with pods or templates. Namespaces exempt
            from hard anti-affinity are excluded. None: all, present and future.
        named: Namespaces that the term lists.
        chosen: The namespace selector. None if absent.
        undecided: Namespaces without known labels, for which the namespace selector is undecided.
    """

    kind: Literal["affinity", "anti-affinity", "spread"]
    path: str
    required: bool
    key: str
    selector: Selector | None
    namespaces: frozenset[str] | None
    named: tuple[str, ...] = ()
    chosen: Selector | None = None
    undecided: frozenset[str] = frozenset()

    @property
    def may_look(self) -> frozenset[str] | None:
        """The namespaces in which the term selects pods or may do so."""
        return None if self.namespaces is None else self.namespaces | self.undecided

    @property
    def rule(self) -> str:
        """The scheduler plugin that enforces the term."""
        return PLUGINS[self.kind]

    @property
    def where(self) -> str:
        """The namespaces of the term, as a phrase."""
        if self.namespaces is None:
            return "in all namespaces"
        listed = sorted(self.namespaces | set(self.named))
        return f"in namespace{'s' * (len(listed) > 1)} {some(listed)}" if listed else "in no namespace"

    def everywhere(self, spaces: int) -> bool:
        """Return True if the term selects in every namespace: future ones included, or all of several existing ones by a selector."""
        return self.namespaces is None or (self.chosen is not None and spaces > 1 and len(self.namespaces) >= spaces)


def terms(view: ClusterView, subject: Subject) -> Iterator[PodTerm]:
    """Yield the terms of a workload, required before preferred ones of each kind.

    Hard anti-affinity of an exempt namespace is skipped.
    """
    spec, own = subject.pod.spec, subject.namespace
    for field, kind in _PARTS:
        part = getattr(spec.affinity, field) if spec.affinity is not None else None
        if part is None:
            continue
        for variant in _REQUIRED:
            for i, term in enumerate(getattr(part, variant) or ()):
                if kind == "affinity" or own not in view.exempt:
                    yield _term(view, subject, kind, f"{subject.path}.affinity.{field}.{variant}[{i}]", term, required=True)
        for i, weighted in enumerate(preferred_terms(subject.pod, field)):
            path = f"{subject.path}.affinity.{field}.{_PREFERRED}[{i}].podAffinityTerm"
            yield _term(view, subject, kind, path, weighted.podAffinityTerm, required=False)
    for i, found in enumerate(spec.topologySpreadConstraints or ()):
        extra = label_key_requirements(subject.labels, found.matchLabelKeys)
        yield PodTerm(
            "spread", f"{subject.path}.topologySpreadConstraints[{i}]", found.whenUnsatisfiable == "DoNotSchedule", found.topologyKey,
            canonical(found.labelSelector, extra), frozenset((own,)),
        )  # fmt: skip


def _term(
    view: ClusterView,
    subject: Subject,
    kind: Literal["affinity", "anti-affinity"],
    path: str,
    term: objects.PodAffinityTerm,
    *,
    required: bool,
) -> PodTerm:
    extra = label_key_requirements(subject.labels, term.matchLabelKeys, term.mismatchLabelKeys)
    chosen = canonical(term.namespaceSelector)
    spaces: frozenset[str] | None = None
    if chosen != ():
        spaces = frozenset(view.audience.namespaces(term, subject.namespace))
        if required and kind == "anti-affinity":
            spaces -= set(view.exempt)
    elif required and kind == "anti-affinity" and view.exempt:
        spaces = frozenset(view.audience.namespaces(term, subject.namespace)) - set(view.exempt)
    unsure = undecided_namespaces(term, view.unknown_namespaces)
    return PodTerm(
        kind, path, required, term.topologyKey, canonical(term.labelSelector, extra), spaces if spaces is None else spaces - unsure,
        tuple(term.namespaces or ()), chosen, unsure,
    )  # fmt: skip
