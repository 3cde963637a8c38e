"""The garbage collector: it deletes objects whose owners are all gone."""

from __future__ import annotations

from tests.api_server.actors.worker import Worker
from tests.api_server.core import Entry
from tests.api_server.store import Change, key_of
from tests.api_server.writes.deleting import delete


class Garbage(Worker):
    """A controller that deletes the dependents of a deleted object, unless another owner remains."""

    def hear(self, change: Change, entry: Entry) -> None:
        if change.deleted:
            self.note(change.new["metadata"]["uid"])

    def work(self, key: str) -> None:
        for resource, obj in self.core.store.owned(key):
            owners = obj["metadata"].get("ownerReferences") or ()
            if not any(self.core.store.by_uid(one["uid"]) for one in owners):
                delete(self.core, self.caller, resource, key_of(resource, obj["metadata"]))
