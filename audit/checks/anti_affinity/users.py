"""Required anti-affinity of pods that are not on the policy's list of users (docs/policy.md#antiaffinityuser)."""

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
    "The policy does not permit a required anti-affinity rule",
    "One pod with such a rule can close a node or a whole domain to others. The policy lists the permitted users (antiAffinityUsers), and"
    " solve rejects pods that are not on the list.",
    "Make the rule preferred, use kubernetes.io/hostname if the policy permits that, or add the workload to antiAffinityUsers.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (_NOT_GRANTED,)


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield findings KS306. Without a list in the policy there are none."""
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
