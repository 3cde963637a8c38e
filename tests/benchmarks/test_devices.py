"""The table of pods with devices: one row an instance, with the result of a pod-by-pod scheduler."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks import bench_devices
from tests.instances.planted.planted_devices import drawn_devices, planted_devices

pytestmark = pytest.mark.slow


def test_a_planted_instance_is_placed_and_proved() -> None:
    made = planted_devices("groups", 0, nodes=3)
    line = bench_devices.row("tiny", made.objects, ("--time-limit", "10", "--workers", "1"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    pods = len(made.placement)
    assert cells[:4] == ["tiny", str(pods), f"{pods} (100.0%)", "yes"]
    assert all(int(re.sub(r" \(.*", "", cell)) <= pods for cell in cells[5:])


def test_a_drawn_fleet_asks_for_as_many_pods_as_asked() -> None:
    kinds = [item["kind"] for item in drawn_devices(5, 30, 1)]
    assert kinds.count("Node") == kinds.count("ResourceSlice") == 5
    assert kinds.count("Pod") == kinds.count("ResourceClaim") == 30
