"""The words of causes for the volume rules.

Topics are claims (``namespace/name``), names of CSI drivers, and those of :mod:`kubestow.solver.rules.volumes.claims`.
"""

from __future__ import annotations

from kubestow.models.cluster.volumes import VolumeClaim
from kubestow.solver.rules.base import StaticRule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.volumes.claims import Driver, VolumeTopic
from kubestow.solver.rules.volumes.remedies import ClaimRemedies, missing_claim, missing_class
from kubestow.solver.rules.wording import listed


class _VolumeWords(ClaimRemedies):
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
            full = f"; {view.of_all(part.barred)} have no room for those of one more pod" if part.barred.any() else ""
            return f"nodes attach a limited number of volumes of {key}, which {part.pods} mount{full}"
        claim = self.cluster.volumes.claim(key)
        part.fact.object = f"PersistentVolumeClaim {key}"
        if claim.missing:
            return missing_claim(self.cluster.snapshot, key)
        return "; ".join(filter(None, (self._of_claim(claim, part), missing_class(self.cluster.snapshot, key))))

    def _of_claim(self, claim: VolumeClaim, part: FactPart) -> str:
        """Return the sentence on an existing claim."""
        remainder = f"leaves {part.view.of_all(~part.barred)}"
        if not claim.delayed:
            return (
                f"the volume of claim {claim.key} {remainder}"
                if not part.barred.all()
                else f"claim {claim.key} is not bound, or its volume is out of reach"
            )
        meets = ""
        if claim.one_node and claim.provision is not None and len(part.view.pods(part.classes)) > 1:
            meets = f"; {part.pods} share it and must meet on one node{' if a new one is made' if claim.volumes else ''}"
        candidates = f"one of the volumes {listed(claim.volumes)}" if claim.volumes else "a new volume"
        return f"claim {claim.key} is not bound yet and needs {candidates}: that {remainder}{meets}"


class LimitWords(_VolumeWords):
    """Facts about limits on attached volumes."""

    drop_rank = 60
    counts_nominated = helped_by_new_nodes = helped_by_fewer_pods = True


class BindingWords(_VolumeWords):
    """Facts about unbound claims and the reach of volumes."""

    drop_rank = 70
    helped_by_new_nodes = helped_by_fewer_pods = False
    counts_nominated = False  # unbound volumes have no owner before a pod is bound


class RestrictionWords(_VolumeWords):
    """Facts about ReadWriteOncePod claims."""

    drop_rank = 80
    counts_nominated = helped_by_fewer_pods = True
    helped_by_new_nodes = False

    def _of_claim(self, claim: VolumeClaim, part: FactPart) -> str:
        return f"claim {claim.key} is ReadWriteOncePod and " + ("in use" if part.barred.all() else f"mounted by {part.pods}")


class ZoneWords(_VolumeWords, StaticRule):
    """Facts about the zones of bound volumes."""

    drop_rank = 90

    def _of_claim(self, claim: VolumeClaim, part: FactPart) -> str:
        return f"the zone of claim {claim.key}'s volume leaves {part.view.of_all(~part.barred)}"
