"""Tests of the published JSON Schemas: they match the Structs, and docs/schema/README.md explains their use.

``python tests/report/documents/test_schemas.py --write`` writes them again.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft7Validator, Draft202012Validator

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from kubestow import cli
from kubestow.models.custom_workloads import table
from kubestow.models.documents import (
    answers,
    batch,
    catalogue,
    doctor,
    fit,
    journal,
    placement,
    policy,
    rebalance_plan,
    sizing,
    survival,
    upgrade,
)
from kubestow.models.documents.findings import audit, audit_selection, check, descheduler, karpenter
from kubestow.models.documents.placement import API_VERSION
from kubestow.models.snapshot.snapshot import InputError
from kubestow.report.documents import schemas

ROOT = Path(cli.__file__).resolve().parent
PUBLISHED = ROOT / "docs" / "schema"
README = PUBLISHED / "README.md"
ALL = schemas.schemas()


def text_of(schema: schemas.Schema) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a schema."""
    if isinstance(schema, dict):
        yield schema
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(value)


def objects(schema: schemas.Schema) -> dict[str, dict[str, Any]]:
    """Return the schemas of all Structs of a document by name. The document itself has the name ''."""
    itself = {"": schema} if "properties" in schema else {}
    return {**itself, **schema.get("$defs", {})}


def test_the_published_files_are_current() -> None:
    """Out of date: python tests/report/documents/test_schemas.py --write"""
    assert {path.name for path in PUBLISHED.glob("*.json")} == set(ALL)
    for name, schema in ALL.items():
        assert (PUBLISHED / name).read_text(encoding="utf-8") == text_of(schema), name


@pytest.mark.parametrize("name", ALL)
def test_a_schema_is_one_and_names_itself(name: str) -> None:
    schema = ALL[name]
    Draft202012Validator.check_schema(schema)
    assert list(schema)[:3] == ["$schema", "$id", "title"]
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["$id"] == f"https://{API_VERSION.partition('/')[0]}/schema/{name}"
    assert name.endswith(f"-{API_VERSION.partition('/')[2]}.json")


@pytest.mark.parametrize("name", ALL)
def test_every_reference_leads_somewhere_and_every_part_is_used(name: str) -> None:
    used = {part["$ref"] for part in parts(ALL[name]) if "$ref" in part}
    assert used == {f"#/$defs/{part}" for part in ALL[name].get("$defs", {})}


@pytest.mark.parametrize("name", ALL)
def test_older_tools_take_them(name: str) -> None:
    """The schemas are valid draft-07 schemas with the same meaning, except for annotations next to $ref."""
    as_draft_7 = {**ALL[name], "$schema": Draft7Validator.META_SCHEMA["$id"]}
    Draft7Validator.check_schema(as_draft_7)
    for part in parts(as_draft_7):
        if "$ref" in part:
            assert set(part) <= {"$ref", "description", "default"}


def test_every_struct_of_a_document_has_its_place() -> None:
    structs = {
        kind.__name__
        for module in (
            answers, audit, audit_selection, batch, catalogue, check, descheduler, doctor, fit, journal, karpenter, placement, policy,
            rebalance_plan, sizing, survival, table, upgrade,
        )
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not kind.__name__.startswith("_") and kind is not placement.Doc
    }  # fmt: skip
    documented = {kind.__name__ for kind in schemas.types().values()}
    assert structs == documented | {part for schema in ALL.values() for part in schema.get("$defs", {})}


@pytest.mark.parametrize("name", schemas.types())
def test_every_field_is_there_under_the_name_it_is_printed_with(name: str) -> None:
    kind = schemas.types()[name]
    assert set(ALL[name]["properties"]) == set(kind.__struct_encode_fields__)


def test_move_and_eviction_are_printed_with_from() -> None:
    for part in ("Move", "Eviction"):
        of_part = ALL["rebalance-plan-v1alpha1.json"]["$defs"][part]
        assert "from" in of_part["required"]
        assert "source" not in of_part["properties"]


def test_a_line_of_a_journal_is_one_of_four_kinds() -> None:
    validator = Draft202012Validator(ALL["journal-v1alpha1.json"])
    run = journal.Run("r1", "2026-11-22T13:00:00Z", "d", "e", "https://127.0.0.1:6443")
    request = journal.Request(1, "2026-11-22T13:00:00Z", "PATCH", "/api/v1/nodes/n1", body=[{"op": "test"}])
    answer, fact = journal.Answered(1, "2026-11-22T13:00:00Z", 200), journal.Fact("2026-11-22T13:00:00Z", "wave", wave=1)
    for line in (run, request, answer, fact):
        plain = msgspec.to_builtins(line)
        validator.validate(plain)
        assert not validator.is_valid({**plain, "line": "verse"})
        assert not validator.is_valid({key: value for key, value in plain.items() if key != "time"})


RESULTS: Final = [
    ("placement", "Placement"), ("rebalance-plan", "RebalancePlan"), ("audit", "Audit"), ("check", "Check"), ("fit", "Fit"),
    ("sizing", "Sizing"), ("survival", "Survival"), ("upgrade", "Upgrade"), ("batch-summary", "BatchSummary"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), RESULTS)
def test_results_say_what_they_are_first(name: str, kind: str) -> None:
    schema = ALL[f"{name}-v1alpha1.json"]
    assert list(schema["properties"].items())[:2] == [("apiVersion", {"const": API_VERSION}), ("kind", {"const": kind})]
    assert schema["required"][:2] == ["apiVersion", "kind"]


#: Schemas of files that users write, with their kind and required fields.
WRITTEN: Final[dict[str, tuple[str, list[str]]]] = {
    "policy-v1alpha1.json": ("Policy", []),
    "audit-config-v1alpha1.json": ("AuditConfig", []),
    "audit-baseline-v1alpha1.json": ("AuditBaseline", []),
    "batch-plan-v1alpha1.json": ("BatchPlan", ["snapshots"]),
    "catalogue-v1alpha1.json": ("Catalogue", ["shapes"]),
    "workload-kinds-v1alpha1.json": ("WorkloadKinds", ["workloadKinds"]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_file_may_leave_its_kind_out_and_takes_no_unknown_field(name: str) -> None:
    schema, (kind, required) = ALL[name], WRITTEN[name]
    assert schema["required"] == required
    assert schema["properties"]["kind"] == {"const": kind, "default": kind}
    for part in objects(schema).values():
        assert part["additionalProperties"] is False


@pytest.mark.parametrize("name", sorted(set(ALL) - set(WRITTEN)))
def test_results_let_fields_of_a_later_version_through(name: str) -> None:
    """Policies and node shapes are strict: ignoring an unknown field there would change the meaning of the result."""
    strict = {"Policy", "Shape", "ShapeTaint", *ALL["policy-v1alpha1.json"]["$defs"]}
    for part, schema in objects(ALL[name]).items():
        assert ("additionalProperties" in schema) == (part in strict), part


def test_descriptions_of_fields_reach_the_schema() -> None:
    limits = ALL["rebalance-plan-v1alpha1.json"]["$defs"]["Limits"]
    assert limits["properties"]["alsoMove"]["description"] == "Exclusions that were lifted (bare, local-storage)."
    assert limits["properties"]["maxMoves"]["description"] == "Moves in the whole plan, stopovers included."
    wave = ALL["placement-v1alpha1.json"]["$defs"]["Wave"]["properties"]
    assert wave["delete"]["description"] == "Pods of old revisions that are deleted."
    of_policy = ALL["policy-v1alpha1.json"]["properties"]
    assert of_policy["colocatePods"]["description"] == of_policy["colocateNamespaces"]["description"]
    assert of_policy["priceLabel"]["description"] == "The node label that `pack` sums instead of counting nodes."
    weight = ALL["explain-affinity-v1alpha1.json"]["$defs"]["ContainerPair"]["properties"]["weight"]["description"]
    assert weight == "A(from, to); negative values repel."


@pytest.mark.parametrize("name", ALL)
def test_descriptions_are_sentences_without_markup_of_docstrings(name: str) -> None:
    for schema in objects(ALL[name]).values():
        assert "description" in schema, schema.get("title")
        assert all("description" in of or "const" in of for of in schema["properties"].values()), schema.get("title")
    for part in parts(ALL[name]):
        said = part.get("description")
        if isinstance(said, str):
            assert re.fullmatch(r"[^a-z ].*[^ .]\.", said), said
            assert not re.search(r"``|:\w+:`|\n|\bNone\b", said), said


# --- docs/schema/README.md ----------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_readme_lists_every_schema() -> None:
    rows = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert [shown for shown, _ in rows] == [target for _, target in rows] == list(ALL)


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", README.read_text(encoding="utf-8")):
        assert (PUBLISHED / target).exists(), target


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the instances, the schemas and the files that the page shows."""
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for file, shown in zip(("policy.yaml", "wrong.yaml"), blocks("yaml"), strict=True):
        (tmp_path / file).write_text(shown, encoding="utf-8")
    (script,) = blocks("python")
    (tmp_path / "validate.py").write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_editor_finds_the_schema_of_the_shown_policy(workshop: Path) -> None:
    first = (workshop / "policy.yaml").read_text(encoding="utf-8").splitlines()[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found is not None
    assert json.loads((workshop / found[1]).read_text(encoding="utf-8")) == ALL["policy-v1alpha1.json"]
    assert policy.read("policy.yaml") != policy.DEFAULT


def test_the_commands_shown_run_and_print_what_is_shown(workshop: Path) -> None:
    runs = [part.partition("\n") for block in blocks("console") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert {shlex.split(command)[0] for command, _, _ in runs} == {"kubestow", "python"}
    for command, _, shown in runs:
        name, *arguments = shlex.split(command)
        if name == "kubestow":
            result = CliRunner().invoke(cli.main, arguments)
            code, printed = result.exit_code, result.stdout
        else:
            ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)
            code, printed = ran.returncode, ran.stdout
        assert printed == shown, command
        assert code == (1 if shown else 0), command


def test_kubestow_refuses_what_the_shown_validator_refuses(workshop: Path) -> None:
    with pytest.raises(InputError, match="nodeAffinity"):
        policy.read("wrong.yaml")


def test_the_policies_of_the_documentation_validate() -> None:
    validator = Draft202012Validator(ALL["policy-v1alpha1.json"])
    for shown in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "policy.md").read_text(encoding="utf-8"), re.DOTALL):
        validator.validate(yaml.safe_load(shown))


def write() -> None:
    """Write all schemas to docs/schema and delete outdated ones."""
    PUBLISHED.mkdir(exist_ok=True)
    for path in PUBLISHED.glob("*.json"):
        if path.name not in ALL:
            path.unlink()
            print(f"{path.name}: deleted")
    for name, schema in ALL.items():
        path, text = PUBLISHED / name, text_of(schema)
        with contextlib.suppress(FileNotFoundError):
            if path.read_text(encoding="utf-8") == text:
                continue
        path.write_text(text, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/report/documents/test_schemas.py --write")
    write()
