"""docs/policy.md describes every field of a policy as it is, and what docs/policy.md and docs/preferences.md show is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from msgspec import inspect

from kubestow import cli
from kubestow.models.documents import policy
from kubestow.models.documents.policy import (
    AgeCost,
    AntiAffinityUser,
    Closeness,
    DefaultConstraint,
    Moves,
    Multipliers,
    Policy,
    PriorityCost,
    Topology,
    TopologyZone,
)
from kubestow.models.snapshot.snapshot import InputError
from kubestow.solver import soft_tiers
from kubestow.solver.bounds import component_bounds
from kubestow.solver.numa import zone_patterns
from kubestow.solver.objective import report
from kubestow.solver.objective.families import taints, topology_spread
from kubestow.solver.search import outcome, parameters
from tests.objects import node, pod

_ROOT = Path(cli.__file__).resolve().parent
_POLICY = (_ROOT / "docs" / "policy.md").read_text()
_PREFERENCES = (_ROOT / "docs" / "preferences.md").read_text()
_SECTIONS: tuple[type[msgspec.Struct], ...] = (
    Policy, Multipliers, DefaultConstraint, Closeness, Topology, TopologyZone, Moves, PriorityCost, AgeCost, AntiAffinityUser,
)  # fmt: skip
_YAML = re.findall(r"```yaml\n(.*?)```", _POLICY, re.DOTALL)
_SHORT, _DEFAULTS, _EXAMPLE = _YAML


def _rows(section: str) -> dict[str, tuple[str, str]]:
    """Field -> (type, default) as the table under a heading says."""
    text = _POLICY.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip("` "): (row[1], row[2]) for row in rows}


def _fields(section: type[msgspec.Struct]) -> dict[str, inspect.Field]:
    found = inspect.type_info(section)
    assert isinstance(found, inspect.StructType)
    return {field.name: field for field in found.fields}


def _type(field: inspect.Field) -> inspect.Type:
    """The type of a field without its description."""
    return field.type.type if isinstance(field.type, inspect.Metadata) else field.type


def _default(field: inspect.Field) -> Any:
    """The default as plain data; NODEFAULT for a required field."""
    found = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    return found if found is msgspec.NODEFAULT else msgspec.json.decode(msgspec.json.encode(found))  # tuples become lists


def _described(kind: inspect.Type) -> str:
    """How the type of a field must begin in a table."""
    if isinstance(kind, inspect.UnionType):
        return f"{_described(kind.types[0])}, or null"
    if isinstance(kind, inspect.IntType):
        return f"whole number, {kind.ge} to {kind.le}"
    if isinstance(kind, inspect.BoolType):
        return "`true` or `false`"
    if isinstance(kind, inspect.StrType):
        return "text" if kind.min_length is None else f"text, {kind.min_length} to {kind.max_length} characters"
    if isinstance(kind, inspect.VarTupleType):
        return f"list of [{kind.item_type.cls.__name__}]" if isinstance(kind.item_type, inspect.StructType) else "list of text"
    return f"mapping, [{kind.cls.__name__}]" if isinstance(kind, inspect.StructType) else "mapping of"


@pytest.mark.parametrize("section", _SECTIONS, ids=lambda section: section.__name__)
def test_every_field_is_described_with_type_and_default(section: type[msgspec.Struct]) -> None:
    fields, rows = _fields(section), _rows(section.__name__)
    assert set(rows) == set(fields)
    for name, field in fields.items():
        kind, default = rows[name]
        found = _type(field)
        if isinstance(found, inspect.LiteralType):
            assert set(re.findall("`([^`]+)`", kind)) == set(found.values), name
        else:
            assert kind.startswith(_described(found)), name
        if _default(field) is msgspec.NODEFAULT:
            assert default == "required", name
        else:
            assert yaml.safe_load(default.strip("`")) == _default(field), name


def test_no_section_of_the_policy_is_left_out() -> None:
    sections = {kind for kind in vars(policy).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    assert {kind for kind in sections if not kind.__name__.startswith("_")} == set(_SECTIONS)


def _read(text: str, directory: Path) -> Policy:
    path = directory / "policy.yaml"
    path.write_text(text)
    return policy.read(str(path))


def test_the_defaults_written_out_are_the_defaults(tmp_path: Path) -> None:
    assert _read(_DEFAULTS, tmp_path) == policy.DEFAULT == _read("", tmp_path)
    written = yaml.safe_load(_DEFAULTS)
    assert set(written) == set(_fields(Policy))
    assert set(written["multipliers"]) == set(_fields(Multipliers))
    assert set(written["closeness"]) == set(_fields(Closeness))
    assert set(written["moves"]) == set(_fields(Moves))


def test_the_example_has_every_field_and_is_default_where_it_says_so(tmp_path: Path) -> None:
    read = _read(_EXAMPLE, tmp_path)
    given = yaml.safe_load(_EXAMPLE)
    parts: list[tuple[type[msgspec.Struct], dict[str, Any]]] = [(Policy, given), (Topology, given["topologies"][0])]
    parts += [(Multipliers, given["multipliers"]), (Closeness, given["closeness"]), (Moves, given["moves"])]
    parts += [(DefaultConstraint, entry) for entry in given["defaultConstraints"]]
    parts += [(TopologyZone, entry) for entry in given["topologies"][0]["zones"]]
    parts += [(PriorityCost, entry) for entry in given["moves"]["priorities"]]
    parts += [(AgeCost, entry) for entry in given["moves"]["ages"]]
    parts += [(AntiAffinityUser, entry) for entry in given["antiAffinityUsers"]]
    marked = set(re.findall(r"^ *(\w+):.*# default$", _EXAMPLE, re.MULTILINE))
    same = set()
    for section, entries in parts:
        fields = _fields(section)
        assert set(entries) == set(fields)
        same |= {name for name, value in entries.items() if value == _default(fields[name])}
    assert marked == same
    assert read.topologies[0].zones[2].resources["cpu"] == "7500m"


def test_the_example_is_accepted_by_solve_and_written_into_the_result(tmp_path: Path) -> None:
    price = {"example.com/hourly-price": "0.35"}
    objects = [node("lab-1", labels=price), node("n2", labels=price), pod("p")]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    read = _read(_EXAMPLE, tmp_path)
    result = CliRunner().invoke(
        cli.main, ["solve", str(tmp_path / "cluster.yaml"), "--policy", str(tmp_path / "policy.yaml"), "-f", "yaml", "-q"]
    )
    assert result.exit_code == 0, result.stderr
    document = yaml.safe_load(result.stdout)
    assert msgspec.convert(document["policy"], Policy) == read
    assert {"tier": "strategy", "value": -350, "bound": -350} in document["objective"]


def test_the_shown_errors_are_what_is_said(tmp_path: Path) -> None:
    wrong = ["multipliers: {nodeAffinity: 2000}", "strateg: pack", "closeness: {sameNode: 3}"]
    shown = re.findall(r"kubestow: (policy\.yaml: .*)", _POLICY)
    assert len(shown) == len(wrong)
    for text, line in zip(wrong, shown, strict=True):
        with pytest.raises(InputError) as caught:
            _read(text, tmp_path)
        assert [problem.replace(f"{tmp_path}/", "") for problem in caught.value.problems] == [line]


# --- commands and their output --------------------------------------------------------------------------------------------------------


def commands(page: str) -> list[str]:
    """The commands of docs/policy.md or docs/preferences.md that are run here."""
    return [command for command, _ in _shown({"docs/policy.md": _POLICY, "docs/preferences.md": _PREFERENCES}[page])]


def _shown(text: str) -> list[tuple[str, list[str]]]:
    """(command, the passages of its output that are shown), in order."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            passages = [passage.strip("\n") for passage in re.split(r"^ *…$", output, flags=re.MULTILINE)]
            found.append((command, [passage for passage in passages if passage.strip()]))
    return found


def _steady(text: str) -> str:
    """Without seconds and trailing blanks."""
    return "\n".join(re.sub(r"[0-9.]+ s\)", "s)", line.rstrip()) for line in text.splitlines())


@pytest.mark.parametrize("text", [_POLICY, _PREFERENCES], ids=["policy", "preferences"])
def test_the_shown_commands_run_and_print_what_is_shown(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances").symlink_to(_ROOT / "instances")
    (tmp_path / "policy.yaml").write_text(_SHORT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    shown = _shown(text)
    assert shown
    for command, passages in shown:
        name, *arguments = shlex.split(command)
        result = CliRunner().invoke(cli.main, arguments)
        assert name == "kubestow"
        assert result.exit_code == 0, f"{command}\n{result.stderr}"
        rest = _steady(result.stdout)
        for passage in passages:
            before, found, rest = rest.partition(_steady(passage))
            assert found, f"{command}: not in the output:\n{passage}\n--- but there is\n{before}"


def test_the_numbers_in_preferences_are_those_of_the_code() -> None:
    for phrase in (
        f"−{taints.TAINT_COST} for each PreferNoSchedule taint",
        f"−{topology_spread.SKEW_COST} for each pod above",
        f"the {report.MAX_LISTED} costliest",
        f"at most {parameters.PARAMETERS.small_variables:,} (class, node) pairs",
        f"up to {outcome.MAX_SOFT_MODEL_VARIABLES:,} pairs",
        f"up to {parameters.PARAMETERS.whole_variables:,} pairs",
        f"more than {component_bounds.MAX_FULL_MODEL_VARIABLES:,} pairs",
        f"at most {soft_tiers.PARAMETERS.unrequested_fraction:.0%} of the time".replace("%", " %"),
        f"{soft_tiers.PARAMETERS.unrequested_seconds} seconds",
        f"at most {soft_tiers.PARAMETERS.unrequested_variables:,} pairs",
        f"more than {zone_patterns.MAX_PATTERNS:,} choices",
    ):
        assert phrase in " ".join(_PREFERENCES.split()), phrase
