"""Classes of equal rows: the numbers of np.unique, without its sort by fields."""

from __future__ import annotations

import numpy as np
import pytest

from kubestow.models.cluster.partition import equivalence


@pytest.mark.parametrize("seed", range(4))
def test_classes_are_those_of_the_distinct_rows_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers, masks = rng.integers(-2, 3, (60, 2)) * 10**seed, rng.random((60, 11)) < 0.1
    single = rng.integers(0, 2, 60).astype(np.int32)
    partition = equivalence(numbers, masks, single)
    table = np.concatenate([numbers, masks, single[:, None]], axis=1)
    rows, firsts, of = np.unique(table, axis=0, return_index=True, return_inverse=True)
    assert partition.of.tolist() == of.reshape(-1).tolist()
    assert partition.firsts.tolist() == firsts.tolist()
    assert [each.tolist() for each in partition.members] == [np.flatnonzero(of.reshape(-1) == i).tolist() for i in range(len(rows))]
    assert len(partition) == len(rows)


def test_nothing_to_compare_makes_one_class_and_no_thing_none() -> None:
    partition = equivalence(np.zeros((3, 0), dtype=np.int64))
    assert (partition.of.tolist(), partition.firsts.tolist()) == ([0, 0, 0], [0])
    assert not len(equivalence(np.zeros((0, 2), dtype=np.int64)))
    assert equivalence(np.zeros(0, dtype=bool)).members == []
