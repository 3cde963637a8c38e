"""The checker's selectors, tolerations and topology terms."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.reading import matching
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import NodeColumns
from kubestow.models.kube.storage_objects import TopologySelectorTerm


def requirement(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "k", "operator": operator, "values": list(values)}


def node(**labels: str) -> objects.Node:
    return objects.Node(objects.ObjectMeta(name="n1", labels=labels))


def in_node_terms(terms: list[dict[str, Any]], **labels: str) -> bool:
    selector = msgspec.convert({"nodeSelectorTerms": terms}, objects.NodeSelector)
    return matching.node_selector_holds(selector, labels, "n1")


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("In", ["a", "b"], "a", True),
        ("In", ["a", "b"], "c", False),
        ("In", ["a"], None, False),
        ("NotIn", ["a"], "a", False),
        ("NotIn", ["a"], "b", True),
        ("NotIn", ["a"], None, True),
        ("Exists", [], "", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], "a", False),
        ("DoesNotExist", [], None, True),
        ("Gt", ["5"], "6", True),
        ("Gt", ["5"], "5", False),
        ("Lt", ["5"], "4", True),
        ("Lt", ["5"], "5", False),
        ("Gt", ["01"], "02", True),
        ("Gt", ["-5"], "3", False),
        ("Lt", ["5"], "-3", False),
        ("Gt", ["1"], "+2", False),
        ("Gt", ["1"], "2.5", False),
        ("Gt", ["1"], "9223372036854775807", True),
        ("Gt", ["1"], "9223372036854775808", False),
        ("Gt", ["1"], None, False),
        ("Gt", ["1", "2"], "3", False),
        ("In", [], "a", False),
        ("NotIn", [], "a", False),
        ("Exists", ["a"], "a", False),
        ("NotIn", ["{bad}"], "a", False),
        ("Like", ["a"], "a", False),
    ],
)
def test_node_expressions(operator: str, values: list[str], label: str | None, holds: bool) -> None:
    labels = {} if label is None else {"k": label}
    assert in_node_terms([{"matchExpressions": [requirement(operator, *values)]}], **labels) is holds


def test_terms_are_ored_and_expressions_anded() -> None:
    a, b = requirement("In", "a"), {"key": "z", "operator": "Exists"}
    assert in_node_terms([{"matchExpressions": [a]}, {"matchExpressions": [b]}], k="a")
    assert not in_node_terms([{"matchExpressions": [a, b]}], k="a")
    assert in_node_terms([{"matchExpressions": [a, b]}], k="a", z="")
    assert not in_node_terms([], k="a")
    assert not in_node_terms([{}], k="a")
    assert matching.node_selector_holds(None, {}, "n1")


def test_match_fields_name_exactly_one_node() -> None:
    def term(operator: str, *values: str, key: str = "metadata.name") -> list[dict[str, Any]]:
        return [{"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}]

    assert in_node_terms(term("In", "n1"))
    assert not in_node_terms(term("In", "n2"))
    assert in_node_terms(term("NotIn", "n2"))
    assert not in_node_terms(term("In", "n1", "n2"))
    assert not in_node_terms(term("NotIn", "n2", "n3"))
    assert not in_node_terms(term("Exists", "n1"))
    assert not in_node_terms(term("In", "n1", key="metadata.uid"))


def test_both_node_affinity_variants_and_the_node_selector_have_to_hold() -> None:
    def fault(wanted: dict[str, str]) -> str | None:
        def required(key: str) -> dict[str, Any]:
            return {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}

        affinity = {
            "requiredDuringSchedulingIgnoredDuringExecution": required("a"),
            "requiredDuringSchedulingRequiredDuringExecution": required("b"),
        }
        spec = msgspec.convert({"nodeSelector": {"c": "1"}, "affinity": {"nodeAffinity": affinity}}, objects.PodSpec)
        return matching.node_affinity_fault(spec, node(**wanted))

    assert fault({"a": "", "b": "", "c": "1"}) is None
    assert fault({"a": "", "b": "", "c": "2"}) == "nodeSelector wants c=1, the node has '2'"
    assert fault({"b": "", "c": "1"}) == "no term of nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution matches the node"
    assert fault({"a": "", "c": "1"}) == "no term of nodeAffinity.requiredDuringSchedulingRequiredDuringExecution matches the node"


def test_label_selectors() -> None:
    selector = msgspec.convert({"matchLabels": {"app": "web"}, "matchExpressions": [requirement("NotIn", "a")]}, objects.LabelSelector)
    canonical = matching.label_selector(selector)
    assert matching.selects(canonical, {"app": "web"})
    assert not matching.selects(canonical, {"app": "web", "k": "a"})
    assert matching.selects(matching.label_selector(objects.LabelSelector()), {})
    assert not matching.selects(matching.label_selector(None), {"app": "web"})
    joined = matching.label_selector(selector, [matching.SelectorRequirement("v", "In", ("1",))])
    assert not matching.selects(joined, {"app": "web"})
    assert matching.selects(joined, {"app": "web", "v": "1"})
    assert matching.label_selector(None, [matching.SelectorRequirement("v", "In", ("1",))]) is None


@pytest.mark.parametrize("bad", [requirement("Gt", "1"), requirement("In"), requirement("Exists", "a")])
def test_invalid_label_selectors(bad: dict[str, Any]) -> None:
    selector = msgspec.convert({"matchExpressions": [bad]}, objects.LabelSelector)
    with pytest.raises(matching.InvalidSelector):
        matching.label_selector(selector)


def test_label_values_of_any_script_are_matched_as_they_are() -> None:
    selector = msgspec.convert({"matchLabels": {"приложение": "-да нет"}}, objects.LabelSelector)
    assert matching.selects(matching.label_selector(selector), {"приложение": "-да нет"})


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
REQUIREMENTS = st.lists(
    st.one_of(
        st.builds(
            matching.SelectorRequirement,
            st.sampled_from("abc"),
            st.sampled_from(["In", "NotIn"]),
            st.sets(st.sampled_from("xyz"), min_size=1).map(lambda values: tuple(sorted(values))),
        ),
        st.builds(matching.SelectorRequirement, st.sampled_from("abc"), st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
    ),
    max_size=3,
).map(tuple)


@given(st.lists(REQUIREMENTS, max_size=6), LABELS)
def test_shelf_offers_all_that_select_and_each_once(
    selectors: list[tuple[matching.SelectorRequirement, ...]], labels: dict[str, str]
) -> None:
    shelf: matching.Shelf[tuple[matching.SelectorRequirement, ...]] = matching.Shelf()
    for selector in selectors:
        shelf.file(selector, selector)
    offered = list(shelf.candidates(labels))
    assert len(offered) == len(set(offered))
    assert {s for s in offered if matching.selects(s, labels)} == {s for s in selectors if matching.selects(s, labels)}


def test_topology_terms() -> None:
    def allowed(terms: list[dict[str, Any]] | None) -> bool:
        return matching.in_topology_terms(msgspec.convert(terms, list[TopologySelectorTerm] | None), {"zone": "a", "rack": "r"})

    def term(**values: list[str]) -> dict[str, Any]:
        return {"matchLabelExpressions": [{"key": key, "values": listed} for key, listed in values.items()]}

    assert allowed(None)
    assert allowed([])
    assert allowed([term(zone=["b"]), term(zone=["a", "c"])])
    assert not allowed([term(zone=["a"], rack=["s"])])
    assert not allowed([term(room=["a"])])
    assert not allowed([{}])


@given(st.lists(st.sampled_from(["In", "NotIn", "Exists", "name", "not name"]), max_size=6), st.integers(0, 3), st.booleans())
def test_many_terms_hold_where_one_of_them_does(kinds: list[str], number: int, bare: bool) -> None:
    def term(kind: str, i: int) -> objects.NodeSelectorTerm:
        if kind.endswith("name"):
            field = objects.NodeSelectorRequirement("metadata.name", "In" if kind == "name" else "NotIn", [f"n{i % 4}"])
            return objects.NodeSelectorTerm(None, [field])
        values = None if kind == "Exists" else [f"v{i % 4}", "w"]
        return objects.NodeSelectorTerm([objects.NodeSelectorRequirement("z", kind, values)])

    some = [term(kind, i) for i, kind in enumerate(kinds)]
    filler = [objects.NodeSelectorTerm([objects.NodeSelectorRequirement("y", "In", [f"u{i}"])]) for i in range(40)]
    labels = {} if bare else {"z": f"v{number}"}
    expected = any(matching.term_holds(each, labels, f"n{number}") for each in some)
    for terms in (some, [*filler, *some]):
        assert matching.node_selector_holds(objects.NodeSelector(terms), labels, f"n{number}") is expected
        table = NodeColumns([objects.Node(objects.ObjectMeta(f"n{number}", labels=labels))])
        assert table.selector(objects.NodeSelector(terms)).tolist() == [expected]
