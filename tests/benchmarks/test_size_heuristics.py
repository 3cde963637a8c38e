"""The heuristics that sizes are compared with buy what holds everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.benchmarks import size_instances
from tests.benchmarks.bench_packing import PLACED_ONLY
from tests.benchmarks.size_heuristics import by_price, provisioned
from tests.objects import pod

ZONES = ["a", "b"]


def _catalogue(folder: Path, *shapes: object) -> catalogues.Catalogue:
    file = folder / "catalogue.json"
    file.write_text(json.dumps({"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": shapes}))
    return catalogues.read(str(file))


def _shape(name: str, cpu: int, price: float) -> dict[str, object]:
    return {"name": name, "allocatable": {"cpu": cpu, "memory": f"{4 * cpu}Gi", "pods": 110}, "zones": ZONES, "price": price}


def test_a_node_is_the_cheapest_shape_that_takes_what_came_to_it(tmp_path: Path) -> None:
    offered = _catalogue(tmp_path, _shape("small", 2, 0.1), _shape("large", 8, 0.39))
    purchase = provisioned(from_objects([pod(f"p{i}", cpu="1") for i in range(9)]), offered)
    assert purchase.counts == {("large", "a"): 1, ("small", "a"): 1}  # eight pods fill one, the ninth opens the other
    assert purchase.cost == 490_000
    assert not purchase.unplaced


def test_the_best_price_is_of_what_waits(tmp_path: Path) -> None:
    offered = _catalogue(tmp_path, _shape("small", 2, 0.11), _shape("large", 8, 0.4))
    purchase = by_price(from_objects([pod(f"p{i}", cpu="1") for i in range(9)]), offered)
    assert purchase.counts == {("large", "a"): 1, ("small", "a"): 1}  # two large ones are opened, of which one is made small
    assert purchase.cost == 510_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_they_buy_what_holds_everything(seed: int, tmp_path: Path) -> None:
    objects, catalogue = size_instances.cluster(seed, 20, 160)
    offered = _catalogue(tmp_path, *catalogue["shapes"])
    snapshot = from_objects(objects)
    for buy in (provisioned, by_price):
        purchase = buy(snapshot, offered)
        assert not purchase.unplaced
        edited = apply(snapshot, None, Edits(buy=purchase.edits, shapes=list(offered.shapes.values()))).snapshot
        placement = place(edited, Options(time_limit=20, policy=PLACED_ONLY, causes=False))
        assert len(placement.assignments) == placement.snapshot.pending > 100
