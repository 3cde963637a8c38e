"""Options of delete requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api_server.refusals import Refused, bad_request, conflict
from tests.api_server.resources import Resource

Object = dict[str, Any]


@dataclass(frozen=True)
class Deletion:
    """The options of a deletion.

    Attributes:
        grace: Grace period in seconds, None for the object's own.
        uid: Precondition on the uid.
        version: Precondition on the resourceVersion.
        propagation: Treatment of the object's dependents.
    """

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    propagation: str = "Background"
    dry: bool = False

    def check(self, resource: Resource, obj: Object) -> None:
        """Check the preconditions against an object.

        Raises:
            Refused: A precondition does not hold.
        """
        metadata = obj["metadata"]
        for what, wanted, found, happened in (
            ("UID", self.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", self.version, metadata["resourceVersion"], "modified"),
        ):
            if wanted and wanted != found:
                why = (
                    f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
                    f"The object might have been {happened}"
                )
                raise conflict(resource, metadata["name"], why)


def deletion(body: Object | None, query: dict[str, str] | None = None) -> Deletion:
    """Return the DeleteOptions of a request.

    Raises:
        Refused: The options are malformed.
    """
    body, query = body or {}, query or {}
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    try:
        seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds: {grace!r}") from None
    if seconds is not None and seconds < 0:
        raise Refused(422, "Invalid", f"gracePeriodSeconds: Invalid value: {seconds}: must be greater than or equal to 0")
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or "Background"
    dry = "All" in (body.get("dryRun") or ()) or query.get("dryRun") == "All"
    return Deletion(seconds, preconditions.get("uid"), preconditions.get("resourceVersion"), propagation, dry)
