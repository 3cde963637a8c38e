"""Objects that create or group pods: controllers, pod groups, budgets. See :mod:`kubestow.models.kube.objects`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubestow.models.kube.objects import (
    Anything,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimTemplate,
    PodCondition,
    PodSpec,
    ResourceList,
    Struct,
)


class PodTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class RollingUpdate(Struct):
    maxSurge: int | str | None = None
    maxUnavailable: int | str | None = None
    partition: int | None = None


class DeploymentStrategy(Struct):
    type: str | None = None
    rollingUpdate: RollingUpdate | None = None


class StatefulSetOrdinals(Struct):
    start: int | None = None


class WorkloadSpec(Struct):
    """The parts of the spec of Deployment, ReplicaSet, StatefulSet and DaemonSet that placement reads."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None
    strategy: DeploymentStrategy | None = None
    updateStrategy: DeploymentStrategy | None = None
    serviceName: str | None = None
    volumeClaimTemplates: list[PersistentVolumeClaimTemplate] | None = None
    ordinals: StatefulSetOrdinals | None = None
    paused: bool | None = None
    podManagementPolicy: str | None = None


class WorkloadStatus(Struct):
    """A controller's status. One of the numbers is always set in a real status; conditions explain missing pods."""

    observedGeneration: int | None = None
    replicas: int | None = None
    currentNumberScheduled: int | None = None
    conditions: list[PodCondition] | None = None


class Deployment(Struct):
    metadata: ObjectMeta
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class ReplicaSet(Struct):
    metadata: ObjectMeta
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class StatefulSet(Struct):
    metadata: ObjectMeta
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class DaemonSet(Struct):
    metadata: ObjectMeta
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class ReplicationControllerSpec(Struct):
    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(Struct):
    metadata: ObjectMeta
    spec: ReplicationControllerSpec | None = None
    status: WorkloadStatus | None = None


class JobSpec(Struct):
    parallelism: int | None = None
    completions: int | None = None
    completionMode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class JobStatus(Struct):
    succeeded: int | None = None
    completedIndexes: str | None = None
    failedIndexes: str | None = None
    conditions: list[PodCondition] | None = None


class Job(Struct):
    metadata: ObjectMeta
    spec: JobSpec | None = None
    status: JobStatus | None = None


class JobTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Struct):
    jobTemplate: JobTemplateSpec | None = None
    suspend: bool | None = None


class CronJob(Struct):
    metadata: ObjectMeta
    spec: CronJobSpec | None = None


class PodTemplate(Struct):
    metadata: ObjectMeta
    template: PodTemplateSpec | None = None


# --- groups of pods ---------------------------------------------------------------------------------------------------


class GangPolicy(Struct):
    minCount: int | None = None


class SchedulingPolicy(Struct):
    """The policy of a pod group (scheduling.k8s.io). Exactly one field is set."""

    basic: Anything | None = None
    gang: GangPolicy | None = None


class GroupTopology(Struct):
    key: str | None = None


class SchedulingConstraints(Struct):
    topology: list[GroupTopology] | None = None


class NetworkTopology(Struct):
    mode: str | None = None
    highestTierAllowed: int | None = None
    highestTierName: str | None = None


class PodGroupSpec(Struct):
    """The spec of any PodGroup kind.

    scheduling.k8s.io has ``schedulingPolicy`` and ``schedulingConstraints``; the other two have ``minMember`` and
    ``minResources``; only Volcano has the remaining fields.
    """

    schedulingPolicy: SchedulingPolicy | None = None
    schedulingConstraints: SchedulingConstraints | None = None
    parentCompositePodGroupName: str | None = None
    minMember: int | None = None
    minResources: ResourceList | None = None
    minTaskMember: dict[str, int] | None = None
    networkTopology: NetworkTopology | None = None
    subGroupPolicy: list[Anything] | None = None


class PodGroup(Struct):
    """Any of the three PodGroup kinds (scheduling.k8s.io, scheduling.x-k8s.io, scheduling.volcano.sh). Equal names in
    different groups are different objects.
    """

    metadata: ObjectMeta
    spec: PodGroupSpec | None = None
    apiVersion: str | None = None

    @property
    def group(self) -> str:
        """The API group; empty if the object does not state it."""
        return (self.apiVersion or "").rpartition("/")[0]


class PodGroupTemplate(Struct):
    name: str | None = None
    policy: SchedulingPolicy | None = None


class SchedulingWorkloadSpec(Struct):
    podGroups: list[PodGroupTemplate] | None = None


class Workload(Struct):
    """A Workload of scheduling.k8s.io/v1alpha1 (1.35). Since 1.36, PodGroup objects are self-contained."""

    metadata: ObjectMeta
    spec: SchedulingWorkloadSpec | None = None


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None
    minAvailable: int | str | None = None
    maxUnavailable: int | str | None = None
    unhealthyPodEvictionPolicy: str | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptionsAllowed: int | None = None
    currentHealthy: int | None = None
    desiredHealthy: int | None = None
    expectedPods: int | None = None


class PodDisruptionBudget(Struct):
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


class PodTemplateReference(Struct):
    """A reference to a PodTemplate of the same namespace."""

    name: str | None = None


class ScalableReference(Struct):
    """A reference to a workload of the same namespace."""

    apiGroup: str | None = None
    kind: str | None = None
    name: str | None = None


class CapacityBufferSpec(Struct):
    provisioningStrategy: str | None = None
    podTemplateRef: PodTemplateReference | None = None
    scalableRef: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: ResourceList | None = None


class CapacityBufferStatus(Struct):
    podTemplateRef: PodTemplateReference | None = None
    replicas: int | None = None
    conditions: list[PodCondition] | None = None


class CapacityBuffer(Struct):
    """Headroom kept by an autoscaler (cluster-autoscaler apis/capacitybuffer, equal in v1alpha1 and v1beta1)."""

    metadata: ObjectMeta
    spec: CapacityBufferSpec | None = None
    status: CapacityBufferStatus | None = None


class EvictionRequestPod(Struct):
    name: str = ""
    uid: str | None = None


class EvictionRequestTarget(Struct):
    pod: EvictionRequestPod | None = None


class EvictionRequestSpec(Struct):
    """The spec of an EvictionRequest. ``intent`` is Eviction or Withdrawn; ``requester`` names the requester."""

    target: EvictionRequestTarget | None = None
    requester: str | None = None
    intent: str | None = None


class EvictionRequestCondition(Struct):
    type: str | None = None
    status: str | None = None


class EvictionRequestStatus(Struct):
    conditions: list[EvictionRequestCondition] | None = None


class EvictionRequest(Struct):
    """A request to evict a pod eventually (lifecycle.k8s.io, KEP-4563, alpha in 1.37)."""

    metadata: ObjectMeta
    spec: EvictionRequestSpec | None = None
    status: EvictionRequestStatus | None = None


# --- pod sets of custom workloads -------------------------------------------------------------------------------------

#: Placeholders whose values differ from pod to pod.
_PER_POD: Final = ("{copy}", "{replica}", "{index}", "{number}")


class PodSetMember(Struct):
    """One pod of a pod set. Five characters follow a name that ends in ``-``. No gang: an empty text."""

    name: str
    labels: dict[str, str]
    owner: OwnerReference | None
    gang: str


class PodSetSpec(Struct):
    """The pods of a pod set, and the place of their template.

    Pod n is pod ``first + n % size`` of replica ``n // size``; each copy counts its replicas from 0. The patterns below
    may contain ``{copy}``, ``{replica}``, ``{index}`` and ``{number}`` (n), which differ from pod to pod, ``{hash}``, the
    hash of the template, and ``{random}``.

    Attributes:
        replicas: Number of pods.
        size: Pods per replica.
        first: Index of the first pod of a replica.
        copies: Equal parts of the pods whose replicas are numbered by themselves.
        random: Characters in place of those that the controller adds, the same for all pods of the object.
        template: The pod template.
        path: Field of the object that holds the template.
        role: Name of the role; empty if the object has only one.
        kind: Kind of the object in its API.
        object: Name of the object.
        pod: Pattern of the pods' names.
        labels: Patterns of labels in addition to the template's.
        owner: Controller of the pods, its name a pattern.
        gang: Pattern of the gang's name; empty: no gang.
        minimum: Pods of the gang without which none is placed; None: all.
        suspended: True if the controller makes no pods for now.
        evicted: Effect of an eviction: ``pod``, another pod; ``gang``, the whole gang is disturbed; empty: unknown.
    """

    replicas: int = 1
    size: int = 1
    first: int = 0
    copies: int = 1
    random: str = ""
    template: PodTemplateSpec | None = None
    path: str = "spec.template"
    role: str = ""
    kind: str = ""
    object: str = ""
    pod: str = ""
    labels: dict[str, str] | None = None
    owner: OwnerReference | None = None
    gang: str = ""
    minimum: int | None = None
    suspended: bool = False
    evicted: str = ""
    selector: None = None

    @property
    def varying(self) -> list[str]:
        """The labels whose values differ from pod to pod."""
        return [key for key, value in (self.labels or {}).items() if any(part in value for part in _PER_POD)]

    def member(self, number: int, revision: str = "") -> PodSetMember:
        """Return the pod of a number. ``revision``: hash of the template, for ``{hash}``."""
        copy, replica = divmod(number // self.size, max(1, self.replicas // (self.size * self.copies)))
        parts = {"hash": revision, "random": self.random, "number": str(number)}
        parts |= {"copy": str(copy), "replica": str(replica), "index": str(self.first + number % self.size)}
        labels = {key: _filled(value, parts) for key, value in (self.labels or {}).items()}
        owner = self.owner
        if owner is not None:
            owner = OwnerReference(owner.kind, _filled(owner.name, parts), owner.apiVersion, owner.uid, True)
        return PodSetMember(_filled(self.pod, parts), labels, owner, _filled(self.gang, parts))


class PodSet(Struct):
    """The pods of one role of an object. The name of the set is the object's, with the role if it has several."""

    metadata: ObjectMeta
    kind: str = ""
    spec: PodSetSpec | None = None
    status: None = None


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    for key, value in parts.items() if "{" in pattern else ():
        pattern = pattern.replace(f"{{{key}}}", value)
    return pattern
