"""Error answers of the API, with the codes, reasons and messages of Kubernetes (``apimachinery/pkg/api/errors``)."""

from __future__ import annotations

from typing import Any

from tests.api_server.resources import Resource

Object = dict[str, Any]


class Refused(Exception):
    """Raised for a request that the server refuses."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}

    def status(self) -> Object:
        """The Status object of the answer."""
        found: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            found["reason"] = self.reason
        if self.details:
            found["details"] = self.details
        return found | {"code": self.code}


def _details(resource: Resource, name: str, **others: Any) -> Object:
    found = {"name": name, "group": resource.group, "kind": resource.plural, **others}
    return {key: value for key, value in found.items() if value not in ("", None)}


def not_found(resource: Resource, name: str) -> Refused:
    """Return the refusal for an object that does not exist."""
    return Refused(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def already_exists(resource: Resource, name: str) -> Refused:
    """Return the refusal for a name that is taken."""
    return Refused(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "") -> Refused:
    """Return the refusal for a request that conflicts with the state of the object."""
    qualified = f"{resource.plural}/{subresource}" + (f".{resource.group}" if resource.group else "") if subresource else resource.qualified
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return Refused(409, "Conflict", message, _details(resource, name) | ({"kind": qualified} if subresource else {}))


def modified(resource: Resource, name: str) -> Refused:
    """Return the refusal for an outdated resourceVersion."""
    return conflict(resource, name, "the object has been modified; please apply your changes to the latest version and try again")


def precondition(resource: Resource, name: str, what: str, wanted: str, found: str) -> Refused:
    """Return the storage's refusal for a uid or resourceVersion that differs from the precondition."""
    inner = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    key = f"/registry/{resource.plural}/{name}"
    return conflict(resource, name, f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {inner}")


def invalid(resource: Resource, name: str, causes: list[tuple[str, str, str]]) -> Refused:
    """Return the refusal for an invalid object. Each cause is a field, a reason such as ``FieldValueForbidden``, and a message."""
    said = [f"{field}: {message}" for field, _, message in causes]
    text = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = _details(resource, name) | {
        "kind": resource.kind,
        "causes": [{"reason": reason, "message": message, "field": field} for field, reason, message in causes],
    }
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> Refused:
    """Return the refusal for a malformed request."""
    return Refused(400, "BadRequest", message)


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> Refused:
    """Return the refusal for a resourceVersion that is too old."""
    return Refused(410, "Expired", message)


def too_many(message: str, causes: list[Object], retry_after: int) -> Refused:
    """Return the refusal of an eviction that a budget does not currently allow."""
    details: Object = {"causes": causes}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return Refused(429, "TooManyRequests", message, details)
