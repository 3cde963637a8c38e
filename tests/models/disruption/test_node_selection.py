"""Nodes by name and by label selector."""

from __future__ import annotations

import pytest

from kubestow.models.disruption.node_selection import choose
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests.objects import node


@pytest.fixture
def cluster() -> Snapshot:
    return from_objects(
        [
            node("n1", labels={"pool": "old", "zone": "a", "example.com/gpu": ""}),
            node("n2", labels={"pool": "old", "zone": "b"}),
            node("n3", labels={"pool": "new", "zone": "b"}),
            node("n4"),
            node("zone"),  # a name that is a label key, too
        ]
    )


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["n3"], ["n3"]),
        (["n3", "n1", "n3"], ["n3", "n1"]),
        (["pool=old"], ["n1", "n2"]),
        (["pool==old"], ["n1", "n2"]),
        (["pool = old , zone != a"], ["n2"]),
        (["zone!=a"], ["n2", "n3", "n4", "zone"]),  # also nodes without the label
        (["pool,zone=b"], ["n2", "n3"]),
        (["pool"], ["n1", "n2", "n3"]),
        (["!pool"], ["n4", "zone"]),
        (["zone"], ["zone"]),  # a name comes first
        (["pool in (new, other)"], ["n3"]),
        (["pool in (new,old),zone notin (b)"], ["n1"]),
        (["example.com/gpu="], ["n1"]),
        (["pool=new", "pool"], ["n3", "n1", "n2"]),
        ([], []),
    ],
)
def test_names_and_selectors(cluster: Snapshot, values: list[str], names: list[str]) -> None:
    assert choose(cluster, values) == names


@pytest.mark.parametrize(
    "value",
    ["", ",", "pool=", "pool=old,", "n9", "pool=none", "pool=old,zone=c", "pool in old", "pool in (a", "a b", "=x", "pool>3", "-pool"],
)
def test_what_means_no_node_is_one_line(cluster: Snapshot, value: str) -> None:
    with pytest.raises(InputError) as caught:
        choose(cluster, ["n1", value])
    (line,) = caught.value.problems
    assert line.startswith(f"--drain '{value}': no such node in the snapshot, nor ")


def test_each_bad_value_is_a_line(cluster: Snapshot) -> None:
    with pytest.raises(InputError) as caught:
        choose(cluster, ["n9", "n1", "a b", "\n" * 500])
    assert len(caught.value.problems) == 3
    assert all("\n" not in line and len(line) < 300 for line in caught.value.problems)
