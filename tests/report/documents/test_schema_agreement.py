"""The schemas and the readers agree: random documents, and random changes to these, are valid if and only if they can be read.

A schema cannot express some of the readers' conditions (numbers out of order, a name twice, an invalid amount): it may accept or refuse
these documents.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import inspect

from kubestow.models.documents import batch, capacity, placement, rebalance_plan
from kubestow.models.documents.findings import audit, check
from kubestow.models.snapshot.interning import ANNOTATIONS
from kubestow.report.documents import schemas
from tests.tiers import examples, sampled

TYPES = schemas.types()
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in schemas.schemas().items()}
NAMES = sorted(TYPES)
POLICY = "policy-v1alpha1.json"
#: Schemas without a required field.
EMPTY = (POLICY, "audit-config-v1alpha1.json", "audit-baseline-v1alpha1.json")

_READERS: dict[type[msgspec.Struct], Callable[[object], object]] = {
    **{
        type_: partial(placement.from_builtins, type_=type_)
        for type_ in (placement.Placement, rebalance_plan.RebalancePlan, audit.Audit, check.Check, batch.BatchSummary)
    },
    **{type_: partial(capacity.from_builtins, kind=kind) for kind, type_ in capacity.KINDS.items()},
}
#: Errors of ``__post_init__`` of the policy's sections that a schema cannot express.
_MEANING = re.compile(r"sameZone >= sameSocket|each topologyKey once|zone names must differ|resources\[")

_AMOUNTS = st.one_of(
    st.integers(0, 2**63), st.floats(0, 1e19), st.from_regex(r"\A[+-]?[0-9]{1,3}(\.[0-9]{0,2})?([numkMGTPE]|[KMGTPE]i|e[+-]?[0-9])?\Z")
)
_LABELS = st.text("abc./-", min_size=1, max_size=6)
#: Values of fields that ``__post_init__`` looks at, such that most are taken.
_SPECIAL: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "Moves": {"annotation": st.tuples(st.sampled_from(ANNOTATIONS), _LABELS).map("".join)},
    "TopologyZone": {"resources": st.dictionaries(_LABELS, _AMOUNTS, max_size=2)},
    "Topology": {"nodes": st.lists(_LABELS, min_size=1, max_size=2)},
}


def read(name: str, document: object) -> str | None:
    """Why a document is refused, if it is."""
    kind = TYPES[name]
    try:
        if kind in _READERS:
            _READERS[kind](document)
        else:
            msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return None


#: Anything that JSON can hold, but whole numbers written as fractions: those are whole to JSON Schema (see the test below).
_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.integers(), st.just(0.5), st.text(max_size=3), st.sampled_from(["", "spread"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=3,
)


def of_type(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Generate plain values for a type; nearly all are valid."""
    match kind:
        case inspect.Metadata():
            return of_type(kind.type)
        case inspect.StrType() if kind.pattern is not None:
            return st.from_regex(kind.pattern)
        case inspect.StrType():
            return st.text(min_size=kind.min_length or 0, max_size=8)
        case inspect.IntType():
            return st.integers(kind.ge, kind.le)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.AnyType():
            return _JSON
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.ListType() | inspect.VarTupleType() | inspect.CollectionType():
            return st.lists(of_type(kind.item_type), min_size=kind.min_length or 0, max_size=2)
        case inspect.DictType():
            return st.dictionaries(of_type(kind.key_type), of_type(kind.value_type), max_size=2)
        case inspect.UnionType():
            return st.one_of([of_type(option) for option in kind.types])
        case inspect.StructType():
            return of_struct(kind)
    raise TypeError(f"no strategy for {kind}")


def of_struct(kind: inspect.StructType) -> st.SearchStrategy[dict[str, Any]]:
    special = _SPECIAL.get(kind.cls.__name__, {})
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in kind.fields:
        chosen = special[field.encode_name] if field.encode_name in special else of_type(field.type)
        stated = field.encode_name in ("apiVersion", "kind") and isinstance(field.type, inspect.StrType)
        if stated:
            chosen = st.just(field.default)
        needed = field.required or stated or field.encode_name in special
        (required if needed else optional)[field.encode_name] = chosen
    return st.fixed_dictionaries(required, optional=optional)


DOCUMENTS: dict[str, st.SearchStrategy[Any]] = {name: of_type(inspect.type_info(kind)) for name, kind in TYPES.items()}


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (mapping, key) and (list, index) in a document."""
    items = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in items:
        yield document, key
        yield from places(value)


@st.composite
def changed(draw: st.DrawFn, name: str) -> Any:
    """A document with one or two values replaced, left out or added."""
    document = copy.deepcopy(draw(DOCUMENTS[name]))
    for _ in range(draw(st.integers(1, 2))):
        spots = list(places(document))
        if not spots:
            return draw(_JSON)
        holder, key = draw(st.sampled_from(spots))
        match draw(st.sampled_from(["replace", "leave out", "add", "swap"])):
            case "replace":
                holder[key] = draw(_JSON)
            case "leave out":
                del holder[key]
            case "swap":
                other, place = draw(st.sampled_from(spots))
                value = copy.deepcopy(other[place])
                # 0.0 is an integer to JSON Schema, and none to msgspec
                holder[key] = int(value) if isinstance(value, float) and value.is_integer() else value
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(["annotations", "a", "from", "pod"]))] = draw(_JSON)
            case _:
                holder.append(draw(_JSON))
    return document


def complaints(name: str, document: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATORS[name].iter_errors(document)]


@pytest.mark.parametrize("name", sampled(NAMES, every=4))
@examples(60)
@given(data=st.data())
def test_what_can_be_read_is_valid(name: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[name])
    refused = read(name, document)
    assume(refused is None or not _MEANING.search(refused))
    assert refused is None  # or else the strategies above are wrong
    assert complaints(name, document) == []


@pytest.mark.parametrize("name", sampled(NAMES, every=4))
@examples(120)
@given(data=st.data())
def test_a_changed_document_is_valid_if_and_only_if_it_can_be_read(name: str, data: st.DataObject) -> None:
    document = data.draw(changed(name))
    refused = read(name, document)
    if refused is None:
        assert complaints(name, document) == []
    elif not _MEANING.search(refused):
        assert complaints(name, document), refused


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("document", [None, [], "x", 3, {}, {"kind": "Placement"}, {"apiVersion": "kubestow.dev/v1alpha1", "kind": "Plan"}])
def test_what_is_no_document_is_refused_by_both(name: str, document: object) -> None:
    assert (read(name, document) is None) == (complaints(name, document) == [])
    assert (read(name, document) is None) == (name in EMPTY and document == {})


@examples(200)
@given(amount=st.one_of(_AMOUNTS, st.text(" 0123456789.+-eEmkKMi", max_size=6), st.text(max_size=4)))
@example(" 1.5Gi ")
@example("1e3")
@example(".")
@example("5.")
@example("1Kib")
@example(2**63 - 1)
@example(2**63)
@example(-1)
def test_amounts_that_are_read_are_valid_and_texts_that_are_none_are_not(amount: object) -> None:
    document = {"topologies": [{"nodes": ["n"], "zones": [{"name": "z", "resources": {"cpu": amount}}]}]}
    refused, found = read(POLICY, document), complaints(POLICY, document)
    if refused is None:
        assert found == []
    elif "is not a quantity" in refused or not isinstance(amount, str):
        assert found


@pytest.mark.parametrize(
    "document",
    [
        {"closeness": {"sameZone": 0, "sameNode": 1}},
        {"defaultConstraints": [{"topologyKey": "zone", "maxSkew": 1}, {"topologyKey": "zone", "maxSkew": 2}]},
        {"topologies": [{"nodes": ["n"], "zones": [{"name": "z", "resources": {}}, {"name": "z", "resources": {"cpu": 1}}]}]},
        {"topologies": [{"nodes": ["n"], "zones": [{"name": "z", "resources": {"cpu": "-1"}}]}]},
        {"topologies": [{"nodes": ["n"], "zones": [{"name": "z", "resources": {"cpu": "1e300"}}]}]},
        {"hardPodAffinityWeight": 1.0},
    ],
)
def test_what_the_readme_says_that_no_schema_tells(document: object) -> None:
    assert read(POLICY, document) is not None
    assert complaints(POLICY, document) == []


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"hardPodAffinityWeight": 101}, "maximum of 100"),
        ({"multipliers": {"taints": -1}}, "minimum of 0"),
        ({"strategy": "sideways"}, "not one of"),
        ({"kind": "Placement"}, "'Policy' was expected"),
        ({"networkTiers": [""]}, "non-empty|too short"),
        ({"topologies": [{"nodes": ["n"], "zones": []}]}, "non-empty|too short"),
        ({"topologies": [{"zones": [{"name": "z", "resources": {}}]}]}, "not valid under any"),
        ({"topologies": [{"nodes": [], "nodeLabels": {}, "zones": [{"name": "z", "resources": {}}]}]}, "not valid under any"),
        ({"moves": {"annotation": "example.com/cost"}}, "does not match"),
        ({"moves": {"ages": [{"cost": 1}]}}, "'atLeastHours' is a required property"),
        ({"topologies": [{"nodes": ["n"], "zones": [{"name": "z", "resources": {"cpu": "much"}}]}]}, "does not match"),
    ],
)
def test_what_a_policys_schema_tells(document: object, told: str) -> None:
    assert read(POLICY, document) is not None
    assert any(re.search(told, complaint) for complaint in complaints(POLICY, document)), complaints(POLICY, document)
