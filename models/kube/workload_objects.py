"""Objects that create or group pods: controllers, pod groups, budgets (core, apps, batch, policy). See
:mod:`kubestow.models.kube.objects`.
"""

from __future__ import annotations

from kubestow.models.kube.objects import (
    Anything,
    LabelSelector,
    ObjectMeta,
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
