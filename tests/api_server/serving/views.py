"""The part of the objects that a client requests: selectors, and whole objects or metadata only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.api_server.refusals import bad_request
from tests.api_server.rules.selectors import fields_match, labels_match, parse_labels
from tests.api_server.serving.routes import Route

Object = dict[str, Any]


class View:
    """A view of objects. ``partial``: metadata only. ``whole``: all objects of a kind without a selector, so that answers can be shared."""

    def __init__(self, route: Route, query: Mapping[str, str], accept: str) -> None:
        self._namespace, self._name = route.namespace, route.name
        self._fields = query.get("fieldSelector", "")
        try:
            self._labels = parse_labels(query["labelSelector"]) if query.get("labelSelector") else None
            fields_match(self._fields, {})
        except (ValueError, AttributeError) as error:
            raise bad_request(f"unable to parse the selector: {error}") from None
        self.partial = "as=PartialObjectMetadata" in accept
        self.whole = not (self.partial or self._namespace or self._name or self._fields or self._labels)

    def shows(self, obj: Object | None) -> bool:
        """Return True if the view includes an object."""
        if obj is None:
            return False
        metadata = obj["metadata"]
        if self._namespace and metadata.get("namespace") != self._namespace:
            return False
        if self._name and metadata["name"] != self._name:
            return False
        if self._labels is not None and not labels_match(self._labels, metadata.get("labels")):
            return False
        return not self._fields or fields_match(self._fields, obj)

    def of(self, obj: Object) -> Object:
        """Return the visible part of an object."""
        if not self.partial:
            return obj
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
