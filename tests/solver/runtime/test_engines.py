"""How far each engine goes."""

from __future__ import annotations

from typing import get_args

import pytest

from kubestow.solver.runtime.engines import ENGINES
from kubestow.solver.runtime.options import Engine, Options


def test_every_engine_of_the_options_has_a_strategy() -> None:
    assert tuple(ENGINES) == get_args(Engine)
    assert Options(engine="lns").strategy is ENGINES["lns"]


@pytest.mark.parametrize(
    ("engine", "whole"), [("auto", [True, False, False]), ("exact", [True, True, False]), ("greedy", [False] * 3), ("lns", [False] * 3)]
)
def test_the_size_of_a_model_decides_for_auto_only(engine: Engine, whole: list[bool]) -> None:
    strategy = ENGINES[engine]
    assert [strategy.takes_whole(variables, 10, 20) for variables in (10, 20, 21)] == whole
    assert strategy.takes_whole(10**9, 10) == (engine == "exact")
    assert strategy.chooses == (engine == "auto")
    assert strategy.searches == (engine != "greedy")
