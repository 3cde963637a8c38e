"""Nodes stay in the order of a key while some keys change."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.solver.construction.node_order import NodeOrder


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("values", [3, 1000])
@pytest.mark.parametrize("size", [1, 5, 200])
def test_the_order_is_that_of_sorting_anew(size: int, values: int, descending: bool) -> None:
    """Few different keys have many ties, which go by the number of the node."""
    rng = np.random.default_rng(values)
    keys = rng.integers(0, values, size).astype(np.float64)
    order = NodeOrder(keys, descending=descending)
    for changes in (0, 1, 2, 5, 0, 3, 100, 1, 12, 4, 1, 6, 2, 3, 8):
        for _ in range(2):  # asked for once after several changes
            nodes = rng.permutation(size)[:changes]
            keys[nodes] = rng.integers(0, values, len(nodes))
            order.changed(nodes)
        mask = rng.random(size) < 0.8
        whole = np.lexsort((np.arange(size), -keys if descending else keys))
        assert order.chosen(mask).tolist() == [n for n in whole.tolist() if mask[n]]
