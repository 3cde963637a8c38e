"""Completions of option values, from the snapshot, catalogue and kubeconfig on the line."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import click
import pytest

from kubestow import cli
from kubestow.audit.catalogue import CODES
from kubestow.commands.common import cluster_choice
from kubestow.commands.completion.answer import complete
from kubestow.commands.completion.values import BY_METAVAR
from kubestow.commands.naming import names
from kubestow.models.kube import kinds
from kubestow.models.workloads import rollout_input
from tests.objects import node, pod

_ROOT = Path(cli.__file__).resolve().parent
_HOST = "kubernetes.io/hostname"
_CATALOGUE = str(_ROOT / "instances/catalogue.yaml")


def _workload(kind: str, name: str, namespace: str = "shop") -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": {"not": "a node's"}}}


_OBJECTS: list[dict[str, Any]] = [
    node("n1", labels={"zone": "a", "pool": "old"}),
    node("n2", labels={"zone": "b"}),
    pod("web-0", namespace="shop"),
    pod("db-0", namespace="till"),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}},
    _workload("Deployment", "web"),
    _workload("StatefulSet", "web", "till"),
    _workload("StatefulSet", "db", "till"),
]
#: The words after ``kubestow``, and the completions.
_ASKED = {
    "explain c.json --node ": ["n1", "n2"],
    "explain c.json --pod ": ["shop/web-0", "till/db-0"],
    "explain c.json --pod t": ["till/db-0"],
    "explain c.json p": ["pod/", "p"],
    "explain c.json -n shop pod/": ["pod/web-0", "pod/till/db-0", "pod/"],
    "explain c.json -n shop sts/till/": ["sts/till/web", "sts/till/db", "sts/till/"],
    "explain c.json ./": ["./"],
    "explain c.json --workload ": ["shop/web", "till/web", "till/db"],
    "explain c.json --workload Dep": ["Deployment/shop/web"],
    "explain c.json --workload d": ["db"],
    "explain c.json --workload w": [],
    "solve c.json --remove-node n": ["n1", "n2"],
    "solve c.json --remove-node=n": ["n1", "n2"],
    "solve c.json --remove-domain ": [f"{_HOST}=", "pool=", "zone="],
    "solve c.json --remove-domain zone=": ["zone=a", "zone=b"],
    "solve c.json --add-nodes ": ["1:"],
    "solve c.json --add-nodes 2:": ["2:n1", "2:n2"],
    "solve c.json --replicas shop/": ["shop/web="],
    "solve c.json --replicas shop/web=": [],
    "solve c.json --rollout ": ["shop/web", "till/web", "till/db"],
    "solve c.json -n ": ["shop", "till", "empty"],
    "solve c.json --daemon-namespaces shop,": ["shop,till", "shop,empty"],
    "solve c.json --engine e": ["exact"],
    "rebalance c.json --drain ": ["n1", "n2", f"{_HOST}=", "pool=", "zone="],
    "rebalance c.json --drain pool=old,zone=": ["pool=old,zone=a", "pool=old,zone=b"],
    "nodes c.json -l zo": ["zone="],
    "survive c.json --fail ": ["node", "zone", _HOST, "pool", "zone"],
    "upgrade c.json --pool pool=": ["pool=old"],
    "upgrade c.json --by ": ["zone", _HOST, "pool", "zone"],
    "audit c.json --machine-label ": [_HOST, "pool", "zone"],
    "audit c.json --stage-label ": ["zones=", "clouds=", "locations="],
    "audit c.json --stage-label zones=p": ["zones=pool"],
    f"size c.json --catalogue {_CATALOGUE} --survive n": ["node"],
    f"solve c.json --catalogue {_CATALOGUE} --buy 2:g2.l": ["2:g2.large@a", "2:g2.large@b", "2:g2.large@c"],
    "solve c.json --buy 2:": [],
    "solve --context ": ["prod", "arn:aws:eks:us:1:cluster/test"],
    "capture --kubeconfig other.config --context ": ["other"],
    "explain none.json --node ": [],
    "explain - --node ": [],
    "explain broken.json --node ": [],
    "batch -o out so": ["solve"],
    "batch -o out solve c.json --remove-node n": ["n1", "n2"],
    "batch -o out solve c.json --remove-n": ["--remove-node"],
    "batch -o out solve c.json --resu": ["--resume"],
    "batch -o out solve --con": [],
    "completion ": ["bash", "zsh", "fish", "kubectl"],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": _OBJECTS}), encoding="utf-8")
    Path("broken.json").write_text('{"kind": "Node", "metadata": {"name":', encoding="utf-8")
    config = "contexts: [{name: prod}, {name: 'arn:aws:eks:us:1:cluster/test'}, {name: 'not $(safe)'}]"
    Path("config").write_text(config, encoding="utf-8")
    Path("other.config").write_text("contexts: [{name: other}]", encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))


def asked(line: str) -> list[str]:
    *before, word = line.split(" ")
    return [str(item.value) for item in complete(cli.main, "kubestow", before, word)]


@pytest.mark.parametrize("line", _ASKED)
def test_values(line: str) -> None:
    assert asked(line) == _ASKED[line]


def test_codes_are_those_of_the_audit() -> None:
    assert asked("audit c.json --select ") == list(CODES)
    assert asked("audit c.json --ignore KS201,KS20") == [f"KS201,{code}" for code in CODES if code.startswith("KS20") and code != "KS201"]


def test_every_metavar_that_names_something_of_a_cluster_is_known() -> None:
    """A new option is completed by its metavar, or stands here."""
    own = {
        "ADDRESS|local|FILE", "DIR", "FILE", "I/N", "K", "N", "NAME", "NAME=true|false", "N|N%", "P", "PERCENT", "PERCENT[:zone]",
        "PROGRAM", "S", "SECONDS", "SIZE", "SNAPSHOT", "USAGE", "ask|SECONDS",
    }  # fmt: skip
    found = {
        parameter.metavar
        for command in cli.main.commands.values()
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.metavar is not None and not isinstance(parameter.type, click.Path)
    }
    assert found - own >= set(BY_METAVAR) - {"NAMESPACE", cluster_choice.WITH_NAMES}
    words = {"NODE", "NAMESPACE", "NS", "POD", "LABEL", "KEY", "WORKLOAD", "CONTEXT", "CODE", "SELECTOR", "ZONE"}
    assert [metavar for metavar in sorted(found - set(BY_METAVAR)) if any(word in metavar for word in words)] == []


def test_workloads_are_those_of_the_rest() -> None:
    assert set(names.WORKLOADS) == set(kinds.WORKLOADS)
    assert names.ROLLING == rollout_input.ROLLING


@pytest.mark.parametrize("form", ["json", "json.gz", "yaml", "typed", "array", "folder"])
def test_every_form_of_a_snapshot_is_read(form: str) -> None:
    text = json.dumps({"kind": "List", "items": _OBJECTS})
    path = Path(f"d.{form}")
    if form == "typed":
        text = json.dumps({"kind": "NodeList", "items": [{k: v for k, v in each.items() if k != "kind"} for each in _OBJECTS[:2]]})
    elif form == "array":
        text = json.dumps(_OBJECTS)
    elif form == "yaml":
        text = "\n---\n".join(json.dumps(each, indent=1) for each in [*_OBJECTS, "no object", {"kind": "Node", "metadata": 3}])
    if form == "folder":
        (path / "a").mkdir(parents=True)
        (path / "a" / "c.json").write_text(text, encoding="utf-8")
        (path / "a" / "broken.json").write_text("{", encoding="utf-8")
    else:
        path.write_bytes(gzip.compress(text.encode()) if form == "json.gz" else text.encode())
    found = names.read([str(path)])
    assert list(found.nodes) == ["n1", "n2"]
    assert (list(found.pods) == ["shop/web-0", "till/db-0"]) is (form != "typed")


def test_hostile_names_reach_no_terminal() -> None:
    hostile = ["\x1b[2J", "$(reboot)", "a b", "-rf", "", "a\nb"]
    items = [{"kind": "Node", "metadata": {"name": name}} for name in hostile]
    items += [{"kind": "Pod", "metadata": {"name": "p", "namespace": name}} for name in hostile if name]
    items += [{"kind": "Node", "metadata": {"name": "n", "labels": {"a;b": "c", "k": "$(v)", "fine": "x"}}}]
    Path("h.json").write_text(json.dumps(items), encoding="utf-8")
    found = names.read(["h.json"])
    assert (list(found.nodes), list(found.pods), list(found.labels)) == (["n"], [], ["fine=x"])


def test_many_are_given_by_their_namespaces_first() -> None:
    items = [pod(f"p-{i}", namespace=f"ns-{i % 3}") for i in range(600)]
    Path("m.json").write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    assert asked("explain m.json --pod ") == ["ns-0/", "ns-1/", "ns-2/"]
    assert len(asked("explain m.json --pod ns-1/")) == 200


def test_a_pipe_is_not_emptied() -> None:
    os.mkfifo("pipe")
    assert asked("explain pipe --node ") == []
