"""The sparse reading of a placement says what the dense matrix says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.solver.objective.sparse_placement import SparsePlacement


@st.composite
def placements(draw: st.DrawFn) -> tuple[Ints, Ids]:
    classes, nodes = draw(st.integers(0, 5)), draw(st.integers(1, 6))
    rows = draw(st.lists(st.lists(st.sampled_from((0, 0, 1, 3)), min_size=nodes, max_size=nodes), min_size=classes, max_size=classes))
    codes = draw(st.lists(st.integers(-1, 2), min_size=nodes, max_size=nodes))
    return np.array(rows, dtype=np.int64).reshape(classes, nodes), np.array(codes, dtype=np.int32)


@pytest.mark.full
@given(placements())
def test_it_reads_as_the_matrix(drawn: tuple[Ints, Ids]) -> None:
    counts, codes = drawn
    placed = SparsePlacement(counts)
    assert placed.classes == [g for g in range(len(counts)) if counts[g].any()]
    for g, row in enumerate(counts):
        nodes, pods = placed.of(g)
        again = np.zeros_like(row)
        again[nodes] = pods
        assert (again == row).all()
        assert (pods > 0).all()
        domains, inside = placed.in_domains(g, codes)
        assert (domains >= 0).all()
        assert inside.sum() == row[codes >= 0].sum()
    total = placed.per_domain(range(len(counts)), codes, 3)
    assert total.tolist() == [int(counts[:, codes == d].sum()) for d in range(3)]
    assert placed.per_domain([], codes, 3).tolist() == [0, 0, 0]


@given(placements(), st.permutations(range(10, 15)))
def test_rows_may_be_other_classes(drawn: tuple[Ints, Ids], names: list[int]) -> None:
    counts, codes = drawn
    placed = SparsePlacement(counts, names[: len(counts)])
    assert placed.classes == sorted(name for name, row in zip(names, counts, strict=False) if row.any())
    for name, row in zip(names, counts, strict=False):
        assert placed.per_domain([name], codes, 3).tolist() == [int(row[codes == d].sum()) for d in range(3)]
    assert all(len(part) == 0 for part in placed.of(0))
