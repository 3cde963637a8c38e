"""Objects with pod templates of unsupported kinds, whose pods are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.settling import UnreadTemplates

UNREAD: Final = Code(
    "KS809", "pod-template-not-read", "error", "An object of an unsupported kind contains a pod template",
    "Its controller creates pods that kubestow does not check, so it is unknown whether they fit and which rules they break.",
    "Check its pods as a Job, Deployment or PodTemplate. To accept the object, ignore this code, or pass --allow-unknown-kinds to check.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (UNREAD,)


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each object of an unsupported kind with pod templates in manifests.

    Pods of objects stored by an API server are in the snapshot.
    """
    for each in view.snapshot.unread:
        kind = each.ref.partition(" ")[0]
        count = len(each.paths)
        what = "a pod template" if count == 1 else f"{count} pod templates"
        of = f"{kind} ({each.api_version})" if each.api_version else kind
        if each.reason:
            yield UNREAD.found(each.ref, each.reason, field=each.paths[0])
            continue
        message = f"{what} in the unsupported kind {of}: {some(each.paths)}"
        yield UNREAD.found(each.ref, message, field=each.paths[0], fix=f"{UNREAD.fix} Or describe the kind: {_snippet(each)}")


def _snippet(unread: UnreadTemplates) -> str:
    """Return the entry of the table of kinds that would read an object, as YAML in flow style."""
    group, _, version = unread.api_version.rpartition("/")
    sets = ", ".join(f"{{{_field(path)}, replicas: 1}}" for path in unread.paths)
    kind = unread.ref.partition(" ")[0]
    return f"{{kind: {kind}, group: {group}, versions: [{version or 'v1'}], sets: [{sets}]}} in a file for --workload-kinds."


def _field(path: str) -> str:
    return f"template: {path.removesuffix('.spec')}" if path.endswith(".spec") and path != "spec" else f"spec: {path}"
