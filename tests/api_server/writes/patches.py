"""JSON merge patches (RFC 7386), JSON patches (RFC 6902) and strategic merge patches."""

from __future__ import annotations

from typing import Any

from tests.api_server.refusals import Refused, bad_request

Object = dict[str, Any]

#: Merge keys of lists in strategic merge patches, by the enclosing fields; "" for lists of plain values.
_MERGED = {
    ("metadata", "ownerReferences"): "uid",
    ("metadata", "finalizers"): "",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "volumes"): "name",
    ("spec", "schedulingGates"): "name",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "resourceClaims"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "podCIDRs"): "",
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("status", "resourceClaimStatuses"): "name",
    ("containers", "env"): "name",
    ("containers", "ports"): "containerPort",
    ("containers", "volumeMounts"): "mountPath",
}
#: Directives that kubectl uses in patches for list items and fields.
_DIRECTIVES = ("$patch", "$retainKeys")


def merge(target: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def strategic(target: Any, patch: Any, above: str = "") -> Any:
    """Return a value after a strategic merge patch. ``above`` is the enclosing field."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key not in _DIRECTIVES}
    found = dict(target) if isinstance(target, dict) else {}
    retained = patch.get("$retainKeys")
    if retained is not None:
        found = {key: value for key, value in found.items() if key in retained}
    for key, value in patch.items():
        if key in _DIRECTIVES or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            found[field] = [item for item in found.get(field) or () if item not in value]
        elif value is None:
            found.pop(key, None)
        elif isinstance(value, list) and (above, key) in _MERGED:
            found[key] = _lists(found.get(key) or [], value, _MERGED[above, key], key)
        else:
            found[key] = strategic(found.get(key), value, key)
    return found


def _lists(target: list[Any], patch: list[Any], name: str, field: str) -> list[Any]:
    if not name:
        return [*target, *(item for item in patch if item not in target)]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    found = list(target)
    for item in patch:
        at = next((i for i, one in enumerate(found) if one.get(name) == item.get(name)), None)
        if item.get("$patch") == "delete":
            found = [one for one in found if one.get(name) != item.get(name)]
        elif at is None:
            found.append(item)
        else:
            found[at] = strategic(found[at], item, field)
    return found


def _refuse(message: str) -> Refused:
    return Refused(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")


def _walk(target: Any, tokens: list[str]) -> Any:
    for token in tokens:
        try:
            target = target[int(token)] if isinstance(target, list) else target[token]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _refuse(f"missing path {'/'.join(tokens)}") from None
    return target


def operations(target: Any, patch: Any) -> Any:
    """Apply a JSON patch to a document in place, and return the document.

    Raises:
        Refused: A path is missing, or a test fails.
    """
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: a JSON patch is a list")
    for one in patch:
        path = one.get("path", "")
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
        kind = one.get("op")
        if kind in ("move", "copy"):
            source = [token.replace("~1", "/").replace("~0", "~") for token in one["from"].split("/")[1:]]
            value = _walk(target, source)
            if kind == "move":
                _set(target, source, "remove", None)
            _set(target, tokens, "add", value)
        elif kind == "test":
            if _walk(target, tokens) != one.get("value"):
                raise _refuse(f"testing value {path} failed")
        elif kind in ("add", "remove", "replace"):
            _set(target, tokens, kind, one.get("value"))
        else:
            raise bad_request(f"error decoding patch: unexpected operation {kind!r}")
    return target


def _set(target: Any, tokens: list[str], kind: str, value: Any) -> None:
    if not tokens:
        raise _refuse("the whole document")
    holder, last = _walk(target, tokens[:-1]), tokens[-1]
    if isinstance(holder, list):
        at = len(holder) if last == "-" else int(last)
        if kind == "add" and at <= len(holder):
            holder.insert(at, value)
            return
        if at >= len(holder):
            raise _refuse(f"index {last} out of range")
        if kind == "remove":
            del holder[at]
        else:
            holder[at] = value
        return
    if not isinstance(holder, dict) or (kind != "add" and last not in holder):
        raise _refuse(f"missing path {'/'.join(tokens)}")
    if kind == "remove":
        del holder[last]
    else:
        holder[last] = value
