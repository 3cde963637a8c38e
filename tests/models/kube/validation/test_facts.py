"""Facts about the API server's validation, one by one, and any number of them in one pod."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.models.kube.feature_gates import feature_gates
from kubestow.models.snapshot.snapshot import InputError, from_objects
from tests.models.kube.validation.facts import ALONE, CONTROLLERS, GROUPS, Fact, Object

_GATES: Final = feature_gates("1.36", {})
_ALL: Final = GROUPS | ALONE
_LISTS: Final = ("containers", "volumes")


def refusals(obj: Object) -> list[str]:
    try:
        from_objects([obj], manifests=True, gates=_GATES)
    except InputError as error:
        return error.problems
    return []


def pod(*facts: Fact) -> Object:
    """Return a pod of several facts. Each has containers and volumes of its own."""
    spec: Object = {}
    for fact in facts:
        spec |= {field: [*spec.get(field, ()), *value] if field in _LISTS else value for field, value in fact.spec.items()}
    spec.setdefault("containers", [{"name": "main", "image": "i"}])
    labels = {key: value for fact in facts for key, value in fact.labels.items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}, "spec": spec}


def template(fact: Fact) -> Object:
    """Return a Deployment whose pods have a fact."""
    made = pod(fact)
    metadata = {"labels": {"app": "x", **fact.labels}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": metadata, "spec": made["spec"]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}


@pytest.mark.parametrize("group", _ALL)
def test_each_fact_holds_for_a_pod(group: str) -> None:
    found = [(fact, problems) for fact in _ALL[group] if bool(problems := refusals(pod(fact))) != fact.refused]
    assert found == []


@pytest.mark.parametrize("group", [group for group in _ALL if group not in ("activeDeadlineSeconds", "restartPolicy")])
def test_each_fact_holds_for_a_template(group: str) -> None:
    found = [(fact, problems) for fact in _ALL[group] if bool(problems := refusals(template(fact))) != fact.refused]
    assert found == []


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_each_fact_holds_for_a_controller(kind: str) -> None:
    restart, chosen = ({"restartPolicy": "Never"}, {}) if kind == "Job" else ({}, {"selector": {"matchLabels": {"app": "x"}}})
    made = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "i"}], **restart}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    wrong = []
    for part, refused in CONTROLLERS[kind]:
        problems = refusals({"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": {**chosen, "template": made, **part}})
        wrong += [(part, problems)] if bool(problems) != refused else []
    assert wrong == []


@pytest.mark.full
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_pod_is_refused_exactly_if_one_of_its_facts_is(data: st.DataObject) -> None:
    """In half of the pods there is no refused fact, or just one: it must not hide behind the others."""
    few = data.draw(st.booleans())
    chosen = data.draw(st.lists(st.sampled_from(list(GROUPS)), unique=True, min_size=1))
    facts = [data.draw(st.sampled_from([fact for fact in GROUPS[group] if not (few and fact.refused)])) for group in chosen]
    if few and data.draw(st.booleans()):
        facts[0] = data.draw(st.sampled_from([fact for fact in GROUPS[chosen[0]] if fact.refused]))
    problems = refusals(pod(*facts))
    assert bool(problems) is any(fact.refused for fact in facts), problems
