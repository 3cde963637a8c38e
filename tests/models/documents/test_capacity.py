"""Documents about capacity as plain values, and read back by the kind that they state."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.models.documents import capacity
from kubestow.models.documents.fit import Fit, TemplateFit
from kubestow.models.documents.placement import Assignment, Placement, Seconds, SnapshotRef, TierResult
from kubestow.models.documents.sizing import Cost, Purchase, Sizing
from kubestow.models.documents.survival import Scenario, Scenarios, Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot.snapshot import InputError
from kubestow.report.documents import results

REF = SnapshotRef("a", 1, 1, 1)
PLACED = Placement(REF, "exact", "optimal", [TierResult("placed", 1, 1, 0)], [Assignment("default/p", "n", 1)])
SURVIVAL = Survival(
    REF, "node", True, Scenarios(1, 1, 0, 1, 0), [], [Scenario(["n"], "survives", "search", 1, assignments=[Assignment("a/p", "n", 1)])]
)
DOCUMENTS: list[capacity.Capacity] = [
    Fit(REF, 3, 4, [TemplateFit("Deployment default/web", 3, 4)], PLACED),
    Sizing(
        REF,
        "add",
        "optimal",
        [Purchase("s", "a", 1, 0.38, ["s-a-1"])],
        Cost(0.38, 0.38),
        TierResult("nodes", 1, 1),
        PLACED,
        survival=SURVIVAL,
        seconds=Seconds(),
    ),
    SURVIVAL,
    Upgrade(REF, "pool=a", ["n"], 1, 0, True, False, []),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.kind)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_what_is_written_is_read_again(document: capacity.Capacity, form: results.Format, tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_bytes(results.encode(results.result_document(document), form))
    assert results.read_result(str(path)) == document


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.kind)
def test_the_question_is_first_and_the_proof_last(document: capacity.Capacity) -> None:
    fields = list(capacity.to_builtins(document))
    assert fields[:3] == ["apiVersion", "kind", "snapshot"]
    assert [*fields].index("notes") > max(
        fields.index(field) for field in fields if field in ("placement", "outcomes", "survival", "waves")
    )
    assert ("seconds" in fields) == (document.seconds is not None)
    assert "policy" not in fields


def test_a_document_within_another_is_of_its_kind(tmp_path: Path) -> None:
    plain = capacity.to_builtins(DOCUMENTS[0])
    plain["placement"]["kind"] = "RebalancePlan"
    (tmp_path / "r").write_bytes(results.encode(plain, "json"))
    with pytest.raises(InputError, match=r"r: placement: expected kubestow.dev.v1alpha1 Placement, got .* 'RebalancePlan'$"):
        results.read_result(str(tmp_path / "r"))
