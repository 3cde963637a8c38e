"""Published manifests on real clusters: placed whole and valid, or explained. Skipped where the shared data are not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.checker.placement import verify
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.tiers import sampled

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = sorted(path.name for path in DATA.glob("workloads/*.yaml"))
CLUSTERS = sorted(path.name for path in DATA.glob("clusters/*.json"))

#: Manifests that the small clusters cannot take as they are: what the cause has to say.
REFUSED = {
    ("karpenter-spread-hostname-zone.yaml", "openshift-aws.json"): "NodeResourcesFit",
    ("karpenter-spread-hostname-zone.yaml", "openshift-vsphere.json"): "PodTopologySpread",
    ("kwok-tsc-deployment.yaml", "openshift-vsphere.json"): "PodTopologySpread",
}
HOPELESS = ("karpenter-spread-hostname-zone.yaml", "openshift-vsphere.json")


@pytest.mark.skipif(not FILES, reason="the shared data are not here")
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", sampled(FILES, every=3))
def test_manifests_are_placed_or_explained(name: str, cluster: str) -> None:
    manifests = load([str(DATA / "workloads" / name)], manifests=True)
    expansion = apply(load([str(DATA / "clusters" / cluster)]), manifests, Edits())
    result = place(expansion.snapshot, Options(time_limit=10, workloads=tuple(expansion.workloads)))
    assert verify(expansion.snapshot, result) == []
    rule = REFUSED.get((name, cluster))
    if rule is None:
        assert result.unplaced == []
    else:
        assert result.assignments == []
        assert [rule in {fact.rule for fact in cause.facts} for cause in result.causes] == [True]
        # Without a zone label and with a tenth of the room no single change is enough.
        assert bool(result.causes[0].waysOut) != ((name, cluster) == HOPELESS)


@pytest.mark.skipif(not FILES, reason="the shared data are not here")
def test_the_selector_of_zookeeper_that_matches_none_of_its_own_pods_is_pointed_out() -> None:
    manifests = load([str(DATA / "workloads" / "zookeeper.yaml")], manifests=True)
    expansion = apply(load([str(DATA / "clusters" / CLUSTERS[0])]), manifests, Edits())
    assert any("StatefulSet default/zk" in line and "its own included" in line for line in expansion.snapshot.warnings)
