"""The properties that distinguish pod classes and templates come from the fields of their types."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields

import pytest

from kubestow.models.cluster.cluster import PodClass, signature
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.cluster.templates import UNREAD, UNREAD_FIXED
from kubestow.models.kube.objects import PodSpec
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import node, pod


@dataclass
class Tomorrow(PodClass):
    """A pod class with a rule that is added tomorrow."""

    parts: tuple[str, ...] = ()


def _class() -> PodClass:
    snapshot = from_objects([node("n1"), pod("a")])
    (found,) = compile_cluster(snapshot, select(snapshot)).classes
    return found


def test_the_signature_has_every_field_but_the_pods_themselves() -> None:
    cls = _class()
    names = {f.name for f in fields(PodClass)} - {"pod", "pods", "profile"}
    assert len(signature(cls)) == len(names)
    for field in fields(PodClass):
        other = copy(cls)
        setattr(other, field.name, "another")
        assert (signature(other) != signature(cls)) == (field.name in names), field.name


def test_a_field_that_is_added_takes_part_by_itself() -> None:
    cls = _class()
    values = {f.name: getattr(cls, f.name) for f in fields(cls)}
    assert signature(Tomorrow(**values, parts=("a",))) != signature(Tomorrow(**values, parts=("b",)))


def test_only_fields_that_a_pod_spec_has_are_left_out_of_templates() -> None:
    assert UNREAD < UNREAD_FIXED < set(PodSpec.__struct_fields__)


@pytest.mark.parametrize("name", sorted(set(PodSpec.__struct_fields__) - UNREAD))
def test_pods_that_differ_in_a_field_that_is_read_are_read_apart(name: str) -> None:
    from kubestow.models.cluster import templates

    plain, other = PodSpec(), PodSpec()
    setattr(other, name, "another")
    assert templates._PENDING_FIELDS(plain) != templates._PENDING_FIELDS(other)
    assert (templates._FIXED_FIELDS(plain) != templates._FIXED_FIELDS(other)) == (name not in UNREAD_FIXED)
