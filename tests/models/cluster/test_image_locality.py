"""ImageLocality: scores of nodes against figures computed by hand, and against the checker's own reading."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubestow.checker.objective.families import image_locality
from kubestow.checker.objective.families.base import Scene
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.cluster.node_scores.image_locality import ImageLocality
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import tiny_soft
from tests.objects import node, pod

MIB = 2**20
ON = replace(DEFAULT, multipliers=replace(DEFAULT.multipliers, imageLocality=1))


def holding(name: str, **images: int) -> dict[str, Any]:
    """A node with these images, sizes in MiB."""
    found = node(name)
    found["status"]["images"] = [{"names": [f"{image}:1"], "sizeBytes": size * MIB} for image, size in images.items()]
    return found


def asking(*images: str) -> dict[str, Any]:
    return pod("p", containers=[{"name": f"c{i}", "image": image} for i, image in enumerate(images)])


def scores(snapshot: Snapshot) -> list[int]:
    found = ImageLocality(snapshot.nodes)
    row = found.row(snapshot.pods[0])
    return [0] * len(snapshot.nodes) if row is None else found.rows[row].tolist()


@pytest.mark.parametrize(
    ("sizes", "images", "expected"),
    [
        ((500, None), ("a:1",), [100 * (250 - 23) // (1000 - 23), 0]),  # one of two nodes: half of the size counts
        ((500, 500), ("a:1",), [100 * (500 - 23) // (1000 - 23)] * 2),
        ((500, 500), ("a:1", "b:1"), [100 * (500 - 23) // (2000 - 23)] * 2),  # the upper threshold is one for each container
        ((500, 500), ("a:1", "a:1"), [100 * (1000 - 23) // (2000 - 23)] * 2),
        ((23, 23), ("a:1",), [0, 0]),
        ((5000, 5000), ("a:1",), [100, 100]),
        ((500, 500), ("a",), [0, 0]),  # that is a:latest
    ],
)
def test_scores_are_those_of_the_formula(sizes: tuple[int | None, int | None], images: tuple[str, ...], expected: list[int]) -> None:
    nodes = [holding(f"n{i}", **({} if size is None else {"a": size})) for i, size in enumerate(sizes)]
    assert scores(from_objects([*nodes, asking(*images)])) == expected


def test_the_first_node_tells_the_size_of_an_image() -> None:
    assert scores(from_objects([holding("n0", a=500), holding("n1", a=1000), asking("a:1")])) == [100 * (500 - 23) // 977] * 2


def test_init_containers_and_image_volumes_count() -> None:
    subject = asking("x")
    subject["spec"]["initContainers"] = [{"name": "i", "image": "a:1"}]
    subject["spec"]["volumes"] = [{"name": "v", "image": {"reference": "b:1"}}]
    snapshot = from_objects([holding("n0", a=400, b=300), subject])
    assert scores(snapshot) == [100 * (700 - 23) // (2000 - 23)]


def test_by_default_images_tell_no_pods_apart() -> None:
    objects = [holding("n0", a=400), asking("a:1"), {**asking("b:1"), "metadata": {"name": "q", "namespace": "default"}}]
    snapshot = from_objects(objects)
    assert len(compile_cluster(snapshot, select(snapshot)).classes) == 1
    assert len(compile_cluster(snapshot, select(snapshot), policy=ON).classes) == 2


def test_a_node_that_is_added_has_no_images() -> None:
    snapshot = from_objects([holding("n0", a=400), asking("a:1")])
    edited = apply(snapshot, None, Edits(addNodes=["1:n0"])).snapshot
    assert [n.status.images is None for n in edited.nodes if n.status is not None] == [False, True]


@pytest.mark.full
@given(st.integers(0, 10**6))
def test_the_checker_reads_the_same(seed: int) -> None:
    snapshot = from_objects(tiny_soft.with_images(tiny_soft.snapshot(seed, "nodes"), seed))
    scene = Scene(snapshot, ON, {n.metadata.name or "": n for n in snapshot.nodes}, {})
    found, checked = ImageLocality(snapshot.nodes), image_locality.ImageLocality(scene)
    for subject in snapshot.pods:
        row = found.row(subject)
        own = [0] * len(snapshot.nodes) if row is None else found.rows[row].tolist()
        assert own == [checked.worth(subject, n.metadata.name or "") for n in snapshot.nodes]
