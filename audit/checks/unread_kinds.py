"""Objects with pod templates of kinds that are not read, so that nothing is known of their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding

UNREAD: Final = Code(
    "KS809", "pod-template-not-read", "error", "A pod template in an object of a kind that kubestow does not read",
    "Its controller makes pods of it, and none of them is judged: whether they fit, and which rules they break, is not known.",
    "Check its pods as a Job, a Deployment or a PodTemplate. To accept it, ignore this code, or pass --allow-unknown-kinds to check.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (UNREAD,)


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each such object that is a manifest; of an object that an API server has stored the pods are there, too."""
    for each in view.snapshot.unread:
        kind = each.ref.partition(" ")[0]
        count = len(each.paths)
        what = "a pod template" if count == 1 else f"{count} pod templates"
        of = f"{kind} ({each.api_version})" if each.api_version else kind
        yield UNREAD.found(each.ref, f"{what} in a kind that is not read, {of}: {some(each.paths)}", field=each.paths[0])
