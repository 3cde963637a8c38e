"""Bounds without Namespace objects hold for every label that the namespaces may have."""

from __future__ import annotations

import random
from itertools import product

import pytest

from kubestow.models.cluster.unknown_namespaces import undecided
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod
from tests.tiers import sampled

ENVS = (None, "prod", "dev")


def selector(rng: random.Random) -> Object:
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": ["prod"]} if operator in ("In", "NotIn") else {}
    return {"matchExpressions": [{"key": "env", "operator": operator} | values]}


def affinity(rng: random.Random) -> Object:
    """Return required affinity or anti-affinity to an application in namespaces with some label."""
    term = {
        "topologyKey": rng.choice(("kubernetes.io/hostname", "zone")), "namespaceSelector": selector(rng),
        "labelSelector": {"matchLabels": {"app": rng.choice("ab")}},
    }  # fmt: skip
    return {rng.choice(("podAffinity", "podAntiAffinity")): {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def instance(rng: random.Random) -> list[Object]:
    objects = [node(f"n{i}", cpu="1", labels={"zone": "xy"[i % 2]}) for i in range(rng.randint(1, 3))]
    for i in range(rng.randint(2, 4)):
        runs = rng.random() < 0.4
        wants = affinity(rng) if rng.random() < 0.6 else None
        objects.append(
            pod(
                f"p{i}", namespace=rng.choice(("s", "t")), labels={"app": rng.choice("ab")}, cpu=rng.choice(("300m", "600m")),
                node_name=f"n{rng.randrange(len(objects) if i == 0 else 1)}" if runs else None, affinity=wants,
            )
        )  # fmt: skip
    return objects


def namespaces(labels: tuple[str | None, ...]) -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"env": env} if env else {}}}
        for name, env in zip("st", labels, strict=True)
    ]


def placed(objects: list[Object]) -> tuple[int, int, bool]:
    """Return the number of placed pods, the bound, and whether a rule depends on unknown labels."""
    snapshot = from_objects(objects)
    placement = place(snapshot, Options(time_limit=10, workers=1, deterministic=True))
    tiers = [tier for tier in placement.objective if tier.tier == "placed"]
    return len(placement.assignments), sum(tier.bound for tier in tiers), undecided(snapshot) is not None


@pytest.mark.parametrize("seed", sampled(range(64), every=16, full=4))
def test_the_bound_holds_whatever_the_labels_are(seed: int) -> None:
    objects = instance(random.Random(f"unknown-namespaces-{seed}"))
    _, bound, _ = placed(objects)
    for labels in product(ENVS, repeat=2):
        max_placed, _, unsure = placed([*objects, *namespaces(labels)])
        assert not unsure
        assert max_placed <= bound, f"seed {seed}, labels {labels}"
