"""The next steps of StatefulSet and DaemonSet controllers, implemented a second time for the checker.

The functions receive the current pods of the workload. Each decides for one step whether its controller takes it,
following Kubernetes' documentation of update strategies. They share nothing with the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubestow.models.workloads.updates.update_input import Update, UpdatePod


@dataclass
class Pods:
    """The current pods of a workload.

    Attributes:
        update: The update.
        there: The pods, by key.
        serving: Keys of the pods that are ready.
    """

    update: Update
    there: dict[str, UpdatePod] = field(default_factory=dict)
    serving: set[str] = field(default_factory=set)
    _slots: dict[int, list[str]] = field(default_factory=dict)

    def come(self, member: UpdatePod) -> None:
        """Add a pod."""
        self.there[member.key] = member
        self._slots.setdefault(member.slot, []).append(member.key)

    def go(self, key: str) -> None:
        """Remove a pod."""
        member = self.there.pop(key)
        self._slots[member.slot].remove(key)
        if not self._slots[member.slot]:
            del self._slots[member.slot]
        self.serving.discard(key)

    def of(self, slot: int, new: bool | None = None) -> list[str]:
        """Return the keys of a slot's pods, of one revision or of both."""
        return [key for key in self._slots.get(slot, ()) if new in (None, self.there[key].new)]

    def serves(self, slot: int) -> bool:
        """Return True if a pod of the slot serves."""
        return any(key in self.serving for key in self._slots.get(slot, ()))

    # --- both kinds ---------------------------------------------------------------------------------------------------------

    def creates(self, slot: int) -> bool:
        """Return True if the controller creates a pod for the slot, quotas permitting."""
        return self._set_creates(slot) if self.update.kind == "StatefulSet" else self._daemon_creates(slot)

    def deletes(self) -> list[list[str]]:
        """Return groups of pods that may be deleted next. A group may be deleted in whole or in part, from its first pod on."""
        return self._set_deletes() if self.update.kind == "StatefulSet" else [[key] for key in self._daemon_deletes()]

    def finished(self) -> bool:
        """Return True if all pods that the update concerns are new and serve, and no others exist."""
        update = self.update
        if any(pod.slot not in update.runs for pod in self.there.values()):
            return False
        for slot in update.runs:
            keys = self.of(slot)
            updated = update.kind == "DaemonSet" or slot >= update.partition
            if len(keys) != 1 or (updated and not (self.there[keys[0]].new and keys[0] in self.serving)):
                return False
        return True

    def bare(self) -> list[int]:
        """Return the slots without a serving pod."""
        return [slot for slot in sorted(self.update.runs) if not self.serves(slot)]

    # --- StatefulSets -------------------------------------------------------------------------------------------------------

    def _set_creates(self, slot: int) -> bool:
        if slot not in self.update.runs or self.of(slot):
            return False
        return self.update.parallel or all(self.serves(below) for below in range(slot))

    def _set_deletes(self) -> list[list[str]]:
        update = self.update
        every = range(update.replicas)
        if any(not self.of(slot) for slot in every) or (not update.parallel and self.bare()):
            return []  # missing pods, and with OrderedReady also pods that do not serve, come first
        surplus = sorted((key for key, pod in self.there.items() if pod.slot not in update.runs), key=lambda key: -self.there[key].slot)
        if surplus and update.parallel:
            return [[key] for key in surplus]
        if surplus:
            ill = [key for key in surplus if key not in self.serving]
            return [[surplus[0]]] if surplus[0] in self.serving or surplus[0] == ill[-1] else []
        if update.strategy == "OnDelete":
            return []
        descending = [self.of(slot)[0] for slot in reversed(every)]
        concerned = descending[: update.replicas - update.partition]
        old = [key for key in concerned if not self.there[key].new]
        if update.counts:
            spare = update.unavailable - sum(key not in self.serving for key in descending)
            return [old[:spare]] if spare > 0 and old else []
        above = concerned[: concerned.index(old[0])] if old else []
        return [[old[0]]] if old and self.serving.issuperset(above) else []

    def waited_for(self) -> str | None:
        """Return the pod for which a StatefulSet's update waits, or None."""
        order = range(self.update.replicas)
        if not self.update.parallel:
            for slot in order:
                if not self.serves(slot):
                    return next(iter(self.of(slot)), None)
            surplus = sorted((-pod.slot, key) for key, pod in self.there.items() if pod.slot not in self.update.runs)
            return next((key for _, key in surplus if key not in self.serving), None)
        lowest = 0 if self.update.counts else self.update.partition
        descending = (key for slot in reversed(order) if slot >= lowest for key in self.of(slot))
        return next((key for key in descending if key not in self.serving), None)

    # --- DaemonSets ---------------------------------------------------------------------------------------------------------

    def _daemon_creates(self, slot: int) -> bool:
        update = self.update
        if slot not in update.runs:
            return False
        old, new = self.of(slot, new=False), self.of(slot, new=True)
        if not old and not new:
            return True
        if not update.surge or update.strategy == "OnDelete" or new or len(old) != 1:
            return False
        return old[0] not in self.serving or self._surging() < update.surge

    def _surging(self) -> int:
        """Return the number of nodes on which a new pod that does not serve runs next to an old one that does."""
        twice = [slot for slot, keys in self._slots.items() if len(keys) > 1]
        old = {slot for slot in twice if self.serving.intersection(self.of(slot, new=False))}
        return sum(1 for slot in old if (new := self.of(slot, new=True)) and not self.serving.intersection(new))

    def _daemon_deletes(self) -> list[str]:
        update, found = self.update, list[str]()
        slots = sorted(self._slots)
        for slot in slots:
            keys, old, new = self.of(slot), self.of(slot, new=False), self.of(slot, new=True)
            if slot not in update.keeps:
                found += keys
            elif not update.surge and len(keys) > 1:
                found += self._by_age(keys)[1:]
            elif update.surge:
                found += [*self._by_age(new)[1:], *self._by_age(old)[1:]]
                if new and old and (self._by_age(new)[0] in self.serving or self._by_age(old)[0] not in self.serving):
                    found.append(self._by_age(old)[0])
        if update.strategy == "RollingUpdate":
            found += self._outdated(slots)
        return list(dict.fromkeys(found))

    def _by_age(self, keys: Sequence[str]) -> list[str]:
        """Return keys by node, creation time and index; pods without a node last."""
        return sorted(keys, key=lambda key: (self.there[key].node is None, self.there[key].born, self.there[key].index))

    def _outdated(self, slots: Sequence[int]) -> list[str]:
        """Return the old pods that may be deleted next for the update."""
        update = self.update
        single = [slot for slot in slots if len(self.of(slot)) == 1]
        old = [key for slot in single for key in self.of(slot, new=False)]
        idle = [key for key in old if key not in self.serving]
        if update.surge:
            served = [slot for slot in slots if self.serving.intersection(self.of(slot, new=False) or self.of(slot, new=True))]
            leaving = [key for key in old if self.there[key].slot not in update.runs]
            spare = len(served) > len(update.runs)
            return [key for key in leaving if spare or key not in self.serving]
        missing = sum(1 for slot in update.runs if not self.of(slot))
        down = sum(1 for slot in single if not self.serves(slot))
        twice = sum(1 for slot in slots if len(self.of(slot)) > 1)
        return old if missing + down + twice < update.unavailable else idle
