"""Required anti-affinity of pods that the policy does not name as its users (docs/policy.md#antiaffinityuser)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code
from kubestow.audit.view.pod_terms import PLUGINS
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.anti_affinity.users import AntiAffinityUsers
from kubestow.models.documents.findings.audit import Finding

_NOT_GRANTED: Final = Code(
    "KS306", "anti-affinity-not-granted", "error",
    "Required anti-affinity that the policy does not grant",
    "One pod of it can keep others out of a node or a whole domain. The policy lists who may use it (antiAffinityUsers), and these pods"
    " are not on the list: solve refuses them.",
    "Make it a preferred rule, use kubernetes.io/hostname where the policy grants that, or add the workload to antiAffinityUsers.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_NOT_GRANTED,)


def check(view: ClusterView) -> Iterator[Finding]:
    """Findings KS306; none where the policy has no list."""
    if not view.policy.antiAffinityUsers:
        return
    users = AntiAffinityUsers(view.snapshot, view.policy)
    for subject in view.subjects:
        for refused in users.refused(subject.pod):
            if not refused.everywhere:
                yield _NOT_GRANTED.found(
                    subject.name, refused.text, field=f"{subject.path}.{refused.path}", rule=PLUGINS["anti-affinity"],
                    pods=view.keys(subject.pods),
                )  # fmt: skip
