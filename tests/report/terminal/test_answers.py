from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from kubestow.models.documents.placement import Placement
from kubestow.report.terminal import answers
from kubestow.report.terminal.canvas import Surface, render
from kubestow.solver.explain.per_node import PodVerdict


@dataclass(frozen=True)
class Violation:
    pod: str
    node: str | None
    rule: str
    why: str


VERDICT = PodVerdict(
    "prod/x", ["n1"], {"n2": ["InterPodAffinity", "NodeResourcesFit"], "n3": ["NodeResourcesFit"]}, {"NodeResourcesFit": "no cpu"}
)


def draw(verdicts: Sequence[PodVerdict], *, per_node: bool = False, width: int = 80) -> str:
    surface = Surface(width)
    return render(list(answers.explanation(verdicts, surface, per_node=per_node)), surface).decode()


def test_rules_with_their_numbers_of_nodes() -> None:
    lines = [line.split() for line in draw([VERDICT]).splitlines()]
    assert lines[0] == ["prod/x:", "1", "of", "3", "nodes", "feasible"]
    assert ["NodeResourcesFit", "2", "no", "cpu"] in lines
    assert ["InterPodAffinity", "1"] in lines
    assert ["feasible:", "n1"] in lines


def test_pods_with_equal_verdicts_share_an_entry() -> None:
    other = replace(VERDICT, pod="prod/z", feasible=[], rejected={"n1": ["NodeName"]})
    text = draw([VERDICT, replace(VERDICT, pod="prod/y"), other, replace(VERDICT, pod="prod/w", feasible=["n1"])])
    assert "3 pods: prod/x, prod/y, prod/w: 1 of 3 nodes feasible" in text
    assert "prod/z: 0 of 1 node feasible" in text


@pytest.mark.parametrize("width", [80, 40])
def test_per_node_names_every_rule(width: int) -> None:
    lines = [line.split() for line in draw([VERDICT], per_node=True, width=width).splitlines()]
    if width == 80:
        assert ["node", "InterPodAffinity", "NodeResourcesFit"] in lines
        assert ["n1", "yes"] in lines
        assert ["n2", "no", "x", "x"] in lines
    else:
        assert ["n2", "no", "InterPodAffinity,"] in lines
        assert ["n3", "no", "NodeResourcesFit"] in lines


def test_no_pending_pod_is_said() -> None:
    assert draw([]) == "no pending pods\n"


def test_violations_are_listed(placement: Placement) -> None:
    found = [Violation("prod/[red]", "n1", "NodePorts", "port 80 is taken"), Violation("prod/y", None, "document", "no such pod")]
    text = render(list(answers.violations_table(found, placement)), Surface(80)).decode()
    assert text.startswith("2 violations in 2 assignments\n")
    assert ["prod/[red]", "n1", "NodePorts", "port", "80", "is", "taken"] in [line.split() for line in text.splitlines()]
    assert render(list(answers.violations_table([], placement)), Surface(80)) == b"valid: 2 assignments\n"
