"""The Placement document, as it is printed and read back."""

from __future__ import annotations

from kubestow.models.documents.placement import (
    Assignment,
    DeviceResult,
    Placement,
    RolloutPod,
    SnapshotRef,
    from_builtins,
    share_id,
    to_builtins,
)

REF = SnapshotRef("0" * 64, 1, 1, 1)
SHARE = DeviceResult("default/c", "r/b", "gpu.example.com", "p", "d", shareID="x", consumedCapacity={"memory": "10Gi"})


def placement(*assignments: Assignment) -> Placement:
    return Placement(REF, "exact", "optimal", [], list(assignments))


def test_a_pod_without_devices_is_printed_as_ever() -> None:
    (plain,) = to_builtins(placement(Assignment("default/p", "n1", 1)))["assignments"]
    assert plain == {"pod": "default/p", "node": "n1", "order": 1, "gang": None, "containers": []}


def test_devices_are_printed_with_what_they_have_and_read_back() -> None:
    whole = DeviceResult("default/p/gpu", "r", "gpu.example.com", "p", "e")
    result = placement(Assignment("default/p", "n1", 1, devices=[whole, SHARE]))
    (plain,) = to_builtins(result)["assignments"]
    assert plain["devices"][0] == {"claim": "default/p/gpu", "request": "r", "driver": "gpu.example.com", "pool": "p", "device": "e"}
    assert from_builtins(to_builtins(result), Placement) == result


def test_a_document_from_before_devices_is_read() -> None:
    plain = to_builtins(placement(Assignment("default/p", "n1", 1)))
    assert from_builtins(plain, Placement).assignments[0].devices == []


def test_a_pod_of_a_rollout_may_have_devices() -> None:
    assert RolloutPod("default/p", "n1", 1).devices == []
    assert RolloutPod("default/p", "n1", 1, [SHARE]).devices[0].shareID == "x"


def test_shares_have_names_that_stay_and_differ() -> None:
    names = [share_id("default/c", "r", "gpu.example.com", "p", "d"), share_id("default/c", "r", "gpu.example.com", "p", "e")]
    names += [share_id("default/c", "s", "gpu.example.com", "p", "d"), share_id("default/b", "r", "gpu.example.com", "p", "d")]
    assert names[0] == "9aa9ef82-f0fb-57ab-b29e-34ebfb75d247"
    assert len(set(names)) == 4
