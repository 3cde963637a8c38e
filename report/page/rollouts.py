"""The snapshot that a rollout's result speaks of."""

from __future__ import annotations

from models.documents.placement import Placement
from models.kube.objects import pod_key
from models.snapshot.snapshot import Snapshot
from models.workloads.rollout_input import read


def with_new_pods(snapshot: Snapshot, placement: Placement, manifests: Snapshot | None = None) -> Snapshot:
    """Return the snapshot with the pods of the new revision and what they need, unchanged if the result is no rollout. ``manifests``: what
    holds the Deployment's new template, as it was given to the rollout.

    Raises:
        InputError: there is no such Deployment, or its template cannot be used.
    """
    reference = placement.snapshot
    if reference.rollout is None or placement.rollout is None:
        return snapshot
    revision = read(snapshot, reference.rollout, manifests, reference.edits)
    known = {pod_key(pod) for pod in revision.snapshot.pods}
    found = revision.snapshot.copy()
    found.pods = [*found.pods, *(pod for pod in revision.new if pod_key(pod) not in known)]
    found.sha256 = snapshot.sha256
    return found
