"""Which findings are reported."""

from __future__ import annotations

import pytest

from kubestow.audit.catalogue import CODES
from kubestow.audit.run import AuditOptions, audit, examine
from kubestow.audit.selection import FindingFilters
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.findings.audit_selection import AuditBaseline, AuditConfig, KnownFinding
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests.objects import Object, node, pod


def replica(name: str, workload: str = "web", namespace: str = "shop", **more: object) -> Object:
    """A pod on a node that its nodeSelector does not take, without requests: KS101 and KS801."""
    made = pod(name, namespace=namespace, node_name="n0", selector={"disk": "ssd"}, **more)  # type: ignore[arg-type]
    del made["spec"]["containers"][0]["resources"]
    made["metadata"]["labels"] = {"pod-template-hash": "5d8f"}
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{workload}-5d8f", "uid": workload, "controller": True}
    ]
    return made


def snapshot(*pods: Object) -> Snapshot:
    return from_objects([node("n0"), *pods])


def look(found: Snapshot, **chosen: object) -> Audit:
    return audit(found, AuditOptions(chosen=FindingFilters(**chosen)))  # type: ignore[arg-type]


def pairs(document: Audit) -> set[tuple[str, str]]:
    return {(finding.code, finding.object) for finding in document.findings}


@pytest.mark.parametrize(
    ("select", "ignore", "chosen"),
    [
        ((), (), {"KS203", "KS204", "KS901"}),
        (("KS2",), (), {"KS203", "KS204"}),
        (("KS203", "KS9"), (), {"KS203", "KS901"}),
        ((), ("KS2",), {"KS901"}),
        (("KS2",), ("KS203",), {"KS204"}),
        (("KS203",), ("KS2",), {"KS203"}),
        (("KS2",), ("KS2",), set()),
        (("KS", "KS203"), ("KS2",), {"KS203", "KS901"}),
    ],
)
def test_the_longest_prefix_of_a_code_decides(select: tuple[str, ...], ignore: tuple[str, ...], chosen: set[str]) -> None:
    for picked in (FindingFilters(select, ignore), FindingFilters(config=AuditConfig(select=select, ignore=ignore))):
        assert {code for code in ("KS203", "KS204", "KS901") if picked.has(code)} == chosen


def test_every_code_is_looked_for_by_default() -> None:
    assert all(FindingFilters().has(code) for code in CODES)


def test_the_command_line_selects_instead_of_the_file_and_ignores_beside_it() -> None:
    both = FindingFilters(("KS1",), ("KS102",), config=AuditConfig(select=("KS2",), ignore=("KS101",)))
    assert [code for code in ("KS101", "KS102", "KS103", "KS201") if both.has(code)] == ["KS103"]


def test_severities_of_the_file_count() -> None:
    found = snapshot(replica("web-1"))
    config = AuditConfig(severities={"KS1": "info", "KS101": "error"})
    assert {f.code: f.severity for f in look(found, config=config).findings}["KS101"] == "error"
    assert look(found, config=config).counts["error"] == 1
    assert look(found).counts["error"] == 0


def test_a_namespace_keeps_what_concerns_its_objects_and_its_pods() -> None:
    heavy = pod("x", namespace="other", node_name="n0", cpu="100")
    found = snapshot(replica("web-1"), heavy)
    shop, other = (look(found, namespaces=(name,)) for name in ("shop", "other"))
    assert {obj for _, obj in pairs(shop)} == {"Deployment shop/web"}
    assert ("KS105", "Node n0") in pairs(other)
    assert shop.selection is not None
    assert shop.selection.elsewhere == len(pairs(look(found)) - pairs(shop))
    with pytest.raises(InputError, match="--namespace: nix: no such namespace"):
        look(found, namespaces=("nix",))


def test_a_baseline_knows_the_workload_whatever_its_pods_are_called() -> None:
    known = examine(snapshot(replica("web-1")), AuditOptions())[1].all
    assert {(k.code, k.object) for k in known.findings} == {("KS101", "Deployment shop/web"), ("KS801", "Deployment shop/web")}
    later = look(snapshot(replica("web-2"), replica("web-3"), replica("api-1", "api")), baseline=known)
    assert {obj for _, obj in pairs(later)} == {"Deployment shop/api"}
    assert later.selection is not None
    assert later.selection.known == 2


def test_what_is_more_than_the_baseline_counts_is_reported() -> None:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "gone"}}} for key in ("a", "b")]
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    found = snapshot(replica("web-1", affinity=rule))
    known = AuditBaseline(findings=(KnownFinding("KS201", "Deployment shop/web"),))
    assert len(look(found, baseline=known, select=("KS201",)).findings) == 1
    known = AuditBaseline(findings=(KnownFinding("KS201", "Deployment shop/web", 2),))
    assert look(found, baseline=known, select=("KS201",)).findings == []


def test_a_renewed_baseline_keeps_what_was_not_asked_for_and_drops_what_is_gone() -> None:
    old = AuditBaseline(
        findings=(
            KnownFinding("KS101", "Deployment shop/web"),
            KnownFinding("KS101", "Deployment shop/gone"),
            KnownFinding("KS101", "Deployment else/where"),
            KnownFinding("KS901", "ControlPlane"),
        )
    )
    chosen = FindingFilters(select=("KS1",), namespaces=("shop",), baseline=old)
    reported = examine(snapshot(replica("web-1")), AuditOptions(chosen=chosen))[1]
    assert {(k.code, k.object) for k in reported.all.findings} == {
        ("KS101", "Deployment shop/web"), ("KS101", "Deployment else/where"), ("KS901", "ControlPlane"),
    }  # fmt: skip
    assert reported.stale == 1


def test_pods_without_a_workload_go_by_the_beginning_of_their_name() -> None:
    made = pod("job-x7", node_name="n0", selector={"disk": "ssd"})
    made["metadata"]["generateName"] = "job-"
    again = pod("job-q9", node_name="n0", selector={"disk": "ssd"})
    again["metadata"]["generateName"] = "job-"
    known = examine(snapshot(made), AuditOptions())[1].all
    assert look(snapshot(again), baseline=known).findings == []


def test_checks_that_are_not_asked_for_do_not_run() -> None:
    found = look(snapshot(replica("web-1")), select=("KS9",))
    assert found.findings == []
    assert all("control plane" in note for note in found.notChecked)
