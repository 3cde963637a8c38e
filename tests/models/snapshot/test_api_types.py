"""The table of Kubernetes' own kinds and fields is what lightkube-models, generated from Kubernetes' OpenAPI document, says.

``python tests/models/snapshot/test_api_types.py --write`` renews it, after an upgrade of that package.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import pytest
from msgspec import inspect

from kubestow.models.kube import kinds, workload_objects
from kubestow.models.snapshot import api_types

TABLE = Path(api_types.__file__).with_name("api_types.json")
#: Objects that are looked through for unknown fields, besides those that are read.
ALSO = {"LimitRange": "core_v1", "ResourceQuota": "core_v1"}
#: Kinds that other projects define, and alpha kinds whose fields change from version to version.
APART = ("BalloonsPolicy", "CapacityBuffer", "EvictionRequest", "NodeResourceTopology", "TopologyAwarePolicy", "PodGroup", "Workload")
MODULES = {
    "apps": "apps_v1",
    "batch": "batch_v1",
    "node.k8s.io": "node_v1",
    "policy": "policy_v1",
    "resource.k8s.io": "resource_v1",
    "scheduling.k8s.io": "scheduling_v1",
    "storage.k8s.io": "storage_v1",
}

#: Groups whose earlier versions have other fields, and that are still served in them.
EARLIER = {"resource.k8s.io": ("v1beta1", "v1beta2")}

Fields = dict[str, str]


def _folder() -> Path:
    return Path(str(metadata.distribution("lightkube-models").locate_file("lightkube")))


def _fields(cls: ast.ClassDef, module: str, known: set[str]) -> Fields:
    """Field names as the API writes them, and the type below each where it has fields itself."""
    found: Fields = {}
    for line in cls.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        name = line.target.id
        for keyword in line.value.keywords if isinstance(line.value, ast.Call) else ():
            if keyword.arg == "metadata":
                name = ast.literal_eval(keyword.value).get("json", name)
        hint = ast.literal_eval(line.annotation)
        bare = hint.removeprefix("Optional[").removeprefix("List[").rstrip("]")
        full = bare if "." in bare else f"{module}.{bare}"
        found[name] = full if full in known else ""
    return found


def published_types() -> dict[str, Fields]:
    """Return every type of the package, with its fields."""
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted((_folder() / "models").glob("*_v*.py"))}
    found = [(module, cls) for module, tree in trees.items() for cls in tree.body if isinstance(cls, ast.ClassDef)]
    classes = {f"{module}.{cls.name}": (cls, module) for module, cls in found}
    return {name: _fields(cls, module, set(classes)) for name, (cls, module) in classes.items()}


def resource_types() -> dict[tuple[str, str], set[str]]:
    """Return by API group and kind the names of its types, one for each version."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in sorted((_folder() / "resources").glob("*_v*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "ResourceDef":
                group, _, kind = (ast.literal_eval(argument) for argument in call.args)
                found.setdefault((group, kind), set()).add(f"{path.stem}.{kind}")
    return found


def _groups() -> dict[str, list[str]]:
    """The kinds of each API group."""
    found: dict[str, list[str]] = {}
    for group, kind in sorted(resource_types()):
        found.setdefault(group, []).append(kind)
    return found


def build() -> dict[str, object]:
    types = published_types()
    heads = {
        kind.name: f"{next(MODULES[g] if g else 'core_v1' for g in sorted(kind.groups) if g in MODULES or not g)}.{kind.name}"
        for kind in kinds.KINDS.values()
        if kind.name not in APART
    }
    heads |= {kind: f"{module}.{kind}" for kind, module in ALSO.items()}
    for kind in kinds.KINDS.values():
        for group in sorted(kind.groups & EARLIER.keys()):
            named = {f"{group}/{version} {kind.name}": f"{group.partition('.')[0]}_{version}.{kind.name}" for version in EARLIER[group]}
            heads |= {name: head for name, head in named.items() if head in types}
    reached: dict[str, Fields] = {}
    queue = sorted(heads.values())
    while queue:
        name = queue.pop()
        if name not in reached:
            # The status in a manifest has no effect.
            reached[name] = {field: "" if field == "status" else below for field, below in types[name].items()}
            queue += [below for below in reached[name].values() if below]
    return {
        "source": f"lightkube-models {metadata.version('lightkube-models')}",
        "groups": _groups(),
        "heads": dict(sorted(heads.items())),
        "types": dict(sorted(reached.items())),
    }


def text() -> str:
    return json.dumps(build(), indent=0, separators=(",", ":")) + "\n"


def test_the_table_is_that_of_the_published_types() -> None:
    assert TABLE.read_text() == text(), f"renew it: python {Path(__file__).relative_to(Path.cwd())} --write"


def _structs(type_: type, name: str) -> Iterator[tuple[str, str, str]]:
    """(struct, field, type of the table) of each field that is read and whether the table has it."""
    table = api_types.TABLE.types
    info = inspect.type_info(type_)
    queue: list[tuple[inspect.Type, str]] = [(info, name)]
    while queue:
        found, below = queue.pop()
        if isinstance(found, inspect.UnionType):
            queue += [(each, below) for each in found.types]
        elif isinstance(found, inspect.ListType):
            queue.append((found.item_type, below))
        elif isinstance(found, inspect.StructType) and below:
            for field in found.fields:
                if field.encode_name not in table[below]:
                    yield found.cls.__name__, field.encode_name, below
                elif table[below][field.encode_name]:
                    queue.append((field.type, table[below][field.encode_name]))


def test_what_is_read_is_in_the_table_but_for_what_kubernetes_never_had_or_has_no_more() -> None:
    """One Struct serves four kinds of workload, so that each lacks some fields of it."""
    missing = {
        (struct, field)
        for name, head in api_types.TABLE.heads.items()
        if name in kinds.KINDS
        for struct, field, _ in _structs(kinds.KINDS[name].type, head)
        if struct != workload_objects.WorkloadSpec.__name__
    }
    execution = "requiredDuringSchedulingRequiredDuringExecution"
    assert missing == {
        ("Pod", "containerIds"),
        ("PodSpec", "workloadRef"),
        ("PodAffinity", execution),
        ("NodeAffinity", execution),
        ("RollingUpdate", "maxSurge"),
        ("RollingUpdate", "partition"),
    }


@pytest.mark.parametrize("release", ["resources", "resizePolicy", "hostnameOverride", "schedulingGroup", "resourceClaims", "nodeName"])
def test_fields_of_recent_releases_are_known(release: str) -> None:
    assert release in {*api_types.TABLE.types["core_v1.PodSpec"], *api_types.TABLE.types["core_v1.Container"]}


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    TABLE.write_text(text())
