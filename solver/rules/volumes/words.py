"""The words of causes for the volume rules.

Topics are claims (``namespace/name``), names of CSI drivers, and those of :mod:`kubestow.solver.rules.volumes.claims`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from kubestow.models.cluster.volumes import ZONE_KEYS, VolumeClaim
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.pod_spec import named_claims
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import Rule, StaticRule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.volumes.claim_words import details, is_first, reason
from kubestow.solver.rules.volumes.claims import Driver, VolumeTopic, attach_limits, claims_of
from kubestow.solver.rules.wording import MAX_NAMES, listed

#: The message of another rule that rejects a pod for a claim about which VolumeBinding says more.
MORE_OF_BINDING: Final = "see VolumeBinding"


class _VolumeWords(Rule):
    """Facts about claims, volumes and drivers."""

    def sentence(self, part: FactPart) -> str:
        view, topic = part.view, part.topic
        if isinstance(topic, Driver):
            part.fact.object = f"CSIDriver {topic.name}"
            return f"{view.of_all(part.barred)} lack the CSI driver {topic.name} of volumes of {part.pods}"
        if isinstance(topic, VolumeTopic):
            part.fact.object = f"PersistentVolume {topic.name}"
            return f"volume {topic.name} serves one claim only"
        key = str(topic)
        if all(key not in cls.claims for cls in self.cluster.classes):
            return self._of_driver(key, part)
        part.fact.object = f"PersistentVolumeClaim {key}"
        return self._of_claim(self.cluster.volumes.claim(key), part)

    def _of_driver(self, driver: str, part: FactPart) -> str:
        """Return the sentence on the limit of a driver."""
        return f"nodes attach a limited number of volumes of {driver}, which {part.pods} mount{part.plural}"

    def _of_claim(self, claim: VolumeClaim, part: FactPart) -> str:
        """Return the sentence on a claim."""
        words = details(self.cluster, claim)
        if is_first(self.cluster, claim):
            return words
        meets = ""
        if claim.one_node and claim.provision is not None and len(part.view.pods(part.classes)) > 1:
            meets = f"; {part.pods} share it and must meet on one node{' if a new one is created' if claim.volumes else ''}"
        if claim.delayed and not claim.volumes and claim.provision is None:
            return words  # no volume at all
        return words + _remainder(part, "; no node matches" if "only where" in words else "") + meets


def _remainder(part: FactPart, nowhere: str = "") -> str:
    """Return the nodes that a claim leaves, with their names if they are few.

    Args:
        nowhere: Returned if the claim leaves none.
    """
    if part.barred.all() and nowhere:
        return nowhere
    left = ~part.barred
    names = f" ({part.view.names(left)})" if left.any() and part.barred.any() and int(left.sum()) <= MAX_NAMES else ""
    return f": that leaves {part.view.of_all(left)}{names}"


class LimitWords(_VolumeWords):
    """Facts about limits on attached volumes."""

    drop_rank = 60
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = True

    def _of_driver(self, driver: str, part: FactPart) -> str:
        words = super()._of_driver(driver, part)
        full = np.flatnonzero(part.barred).tolist()
        if not full:
            return words
        limits = attach_limits(self.cluster, [driver]).get(driver)
        here = []
        for n in full[:MAX_NAMES]:
            claims = sorted(self._attached_at(driver, n))
            counted = f"{len(claims)} of {limits[n]}" if limits is not None else str(len(claims))
            here.append(f"{self.cluster.nodes.names[n]} has {counted}" + (f" ({listed(claims)})" if claims else ""))
        more = f"; and {len(full) - MAX_NAMES} more" if len(full) > MAX_NAMES else ""
        return f"{words}; no room for one more pod on {part.view.of_all(part.barred)}: {'; '.join(here)}{more}"

    def _attached_at(self, driver: str, n: int) -> set[str]:
        """Return the distinct volumes of a driver that running pods mount on a node, each with one of its claims."""
        snapshot, volumes = self.cluster.snapshot, dict[str, str]()
        for key, nodes in sorted(self.cluster.fixed_claims.items()):
            claim = self.cluster.volumes.claim(key)
            if n in nodes and claim.driver == driver and claim.handle is not None and (claim.counted is None or claim.counted[n]):
                raw = snapshot.persistent_volume_claims.get(key)
                volume = raw.spec.volumeName if raw is not None and raw.spec is not None else None
                volumes.setdefault(claim.handle, f"{volume} of claim {key}" if volume else f"the volume of claim {key}")
        return set(volumes.values())


class BindingWords(_VolumeWords):
    """Facts about unbound claims and the reach of volumes."""

    drop_rank = 70
    helped_by_new_nodes = True  # nodes of a catalogue may be in the zone of a volume
    helped_by_fewer_pods = False
    counts_nominated = False  # unbound volumes have no owner before a pod is bound

    def message(self, g: int, rejected: Bools) -> str:
        claims = sorted(claims_of(self.cluster, g), key=lambda claim: not claim.missing)
        words = [reason(self.cluster, claim) for claim in claims if (~claim.binding & rejected).any()]
        return listed(words, limit=1) if words else "the volumes that its claims could take are taken or out of reach"

    def comes_first(self, topic: Hashable) -> bool:
        return isinstance(topic, str) and is_first(self.cluster, self.cluster.volumes.claim(topic))


class RestrictionWords(_VolumeWords):
    """Facts about ReadWriteOncePod claims."""

    drop_rank = 80
    counts_nominated = helped_by_fewer_pods = True
    helped_by_new_nodes = False

    def _of_claim(self, claim: VolumeClaim, part: FactPart) -> str:
        if not part.barred.all():
            return f"claim {claim.key} is ReadWriteOncePod and mounted by {part.pods}"
        pods = self.cluster.snapshot.pods
        users = (pods[i] for i in self.cluster.scope.fixed if claim.key in named_claims(pods[i]))
        names = listed(f"{pod_key(pod)} on {pod.spec.nodeName}" for pod in users)
        return f"claim {claim.key} is ReadWriteOncePod and in use" + (f" by {names}, which has to end first" if names else "")


class ZoneWords(_VolumeWords, StaticRule):
    """Facts about the zones of bound volumes."""

    drop_rank = 90
    helped_by_new_nodes = True  # nodes of a catalogue may be in the zone of a volume
    text = "a claim's volume is in another zone"

    def message(self, g: int, rejected: Bools) -> str:
        volumes = all(claim.binding.any() for claim in claims_of(self.cluster, g, named=True))
        return self.text if volumes else MORE_OF_BINDING

    def _of_claim(self, claim: VolumeClaim, part: FactPart) -> str:
        raw = self.cluster.snapshot.persistent_volume_claims.get(claim.key)
        name = raw.spec.volumeName if raw is not None and raw.spec is not None else None
        volume = self.cluster.snapshot.persistent_volumes.get(name or "")
        if volume is None:
            return super()._of_claim(claim, part)
        labels = ", ".join(f"{key}={value}" for key, value in sorted((volume.metadata.labels or {}).items()) if key in ZONE_KEYS)
        return f"PersistentVolume {name} (claim {claim.key}) is labelled {labels}" + _remainder(part, "; no node is there")
