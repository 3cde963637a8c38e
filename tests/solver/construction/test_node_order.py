"""Nodes stay in the order of a key while some keys change."""

from __future__ import annotations

import numpy as np
import pytest

from solver.construction.node_order import NodeOrder


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("values", [3, 1000])
def test_the_order_is_that_of_sorting_anew(values: int, descending: bool) -> None:
    """Few different keys have many ties, which go by the number of the node."""
    rng = np.random.default_rng(values)
    keys = rng.integers(0, values, 200).astype(np.float64)
    order = NodeOrder(keys, descending=descending)
    for changes in (0, 1, 2, 5, 0, 3, 100, 1, 12):
        for _ in range(2):  # asked for once after several changes
            nodes = rng.permutation(200)[:changes]
            keys[nodes] = rng.integers(0, values, changes)
            order.changed(nodes)
        mask = rng.random(200) < 0.8
        whole = np.lexsort((np.arange(200), -keys if descending else keys))
        assert order.chosen(mask).tolist() == [n for n in whole.tolist() if mask[n]]
