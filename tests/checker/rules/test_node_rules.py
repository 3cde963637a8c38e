"""Tolerations, and kubelet requirements in a pod's spec, as the checker reads them; the solver reads tolerations alike."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.reading import node_features, taints
from kubestow.checker.rules.node_static import rule as node_rules
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.pod_spec import required_features
from kubestow.models.kube.selectors import Tolerations, tolerates

ON = FeatureGates("1.36", (("TaintTolerationComparisonOperators", True),))


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu"}, False),
        ({"key": "", "operator": "Equal", "value": "yes"}, True),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Lt", "value": "yes"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], covered: bool) -> None:
    taint = objects.Taint(key="gpu", value="yes", effect="NoSchedule")
    parsed = msgspec.convert(toleration, objects.Toleration)
    assert taints.tolerates(parsed, taint, compare=True) is covered
    assert taints.untolerated_taint([parsed], [taint], ON) == (None if covered else taint)


def test_soft_taints_never_reject() -> None:
    soft, evicting = objects.Taint("a", "PreferNoSchedule"), objects.Taint("b", "NoExecute")
    assert taints.untolerated_taint(None, [soft], ON) is None
    assert taints.untolerated_taint(None, [soft, evicting], ON) == evicting


@pytest.mark.parametrize(
    ("operator", "asked", "offered", "covered"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Gt", "-5", "-4", True),
        ("Lt", "0", "-9223372036854775808", True),
        ("Lt", "0", "-9223372036854775809", False),
        ("Gt", "0", "9223372036854775807", True),
        ("Gt", "0", "9223372036854775808", False),
        ("Gt", "0", "01", False),
        ("Gt", "-0", "1", False),
        ("Gt", "0", "+1", False),
        ("Gt", "0", "1.5", False),
        ("Gt", "0", "1e3", False),
        ("Gt", "0", "", False),
        ("Lt", "x", "1", False),
        ("Gt", "0", "1\n", False),
        ("Gt", "0", "\u0661", False),
    ],
)
def test_gt_and_lt_compare_whole_numbers_where_their_gate_is_on(operator: str, asked: str, offered: str, covered: bool) -> None:
    taint = objects.Taint("sla", "NoSchedule", offered)
    for key in ("sla", None):  # an empty key matches every key
        toleration = objects.Toleration(key, operator, asked)
        assert taints.tolerated([toleration], taint, ON) is covered
        assert Tolerations([toleration], ON).cover(taint) is covered
        for version in ("1.34", "1.36"):
            off = FeatureGates(version)
            assert not taints.tolerated([toleration], taint, off)
            assert not Tolerations([toleration], off).cover(taint)
    assert not taints.tolerated([objects.Toleration("other", operator, asked)], taint, ON)


_KEYS, _EFFECTS = ["", "a", "b"], ["NoSchedule", "NoExecute", "PreferNoSchedule"]
_VALUES = [None, "", "x", "1", "2", "-3", "-0", "+1", "02", "9223372036854775807", "9223372036854775808"]
_TOLERATION = st.builds(
    objects.Toleration,
    key=st.sampled_from([*_KEYS, None]),
    operator=st.sampled_from([None, "", "Equal", "Exists", "Gt", "Lt"]),
    value=st.sampled_from(_VALUES),
    effect=st.sampled_from([None, "", *_EFFECTS]),
)
_TAINT = st.builds(objects.Taint, st.sampled_from(["a", "b"]), st.sampled_from(_EFFECTS), st.sampled_from(_VALUES))


@given(st.lists(_TOLERATION, max_size=4), _TAINT, st.booleans())
def test_many_tolerations_cover_what_one_of_them_covers(some: list[objects.Toleration], taint: objects.Taint, compare: bool) -> None:
    """Long lists of rules use a lookup, here and in the solver's own reading."""
    gates = ON if compare else FeatureGates("1.36")
    filler = [objects.Toleration(f"other-{i}", "Exists") for i in range(40)]
    covered = any(taints.tolerates(each, taint, compare=compare) for each in some)
    assert taints.tolerated(some, taint, gates) is covered
    assert taints.tolerated([*filler, *some], taint, gates) is covered
    assert Tolerations(some, gates).cover(taint) is covered
    assert covered is any(tolerates(each, taint) for each in some if compare or each.operator not in ("Gt", "Lt"))
    hard = taint.effect != "PreferNoSchedule"
    assert taints.untolerated_taint([*filler, *some], [taint], gates) == (taint if hard and not covered else None)


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"containers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]}, ["RestartAllContainersOnContainerExits"]),
        (
            {"initContainers": [{"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}]},
            ["RestartAllContainersOnContainerExits"],
        ),
        ({"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}, []),
        ({"hostNetwork": True, "hostUsers": False}, ["UserNamespacesHostNetworkSupport"]),
        ({"hostNetwork": True, "hostUsers": True}, []),
        ({"hostNetwork": True}, []),
        ({"hostUsers": False}, []),
    ],
)
def test_what_a_spec_asks_of_the_kubelet(spec: dict[str, object], asked: list[str]) -> None:
    parsed = msgspec.convert(spec, objects.PodSpec)
    assert sorted(node_features.features_asked(parsed)) == asked
    assert list(required_features(parsed)) == asked
    for declared, gates, rejected in (
        (["Other", *asked], FeatureGates("1.36"), False),
        (["Other"], FeatureGates("1.36"), bool(asked)),
        (None, FeatureGates("1.37"), bool(asked)),
        (None, FeatureGates("1.35"), False),
        (None, FeatureGates("1.35", (("NodeDeclaredFeatures", True),)), bool(asked)),
    ):
        node = objects.Node(objects.ObjectMeta("n"), status=objects.NodeStatus(declaredFeatures=declared))
        found = [rule for rule, _ in node_rules.node_faults(parsed, node, gates)]
        assert found == ["NodeDeclaredFeatures"] * rejected
