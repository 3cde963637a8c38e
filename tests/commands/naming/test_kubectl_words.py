"""Kinds under every name that kubectl has for them, and files among the words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.commands.naming.kubectl_words import NamedObject, split

_NAMES = {
    "Pod": "po pod pods Pods pods.v1.",
    "Deployment": "deploy deployment deployments DEPLOY deployments.apps deployments.v1.apps",
    "StatefulSet": "sts statefulset statefulsets statefulsets.apps",
    "DaemonSet": "ds daemonset daemonsets",
    "ReplicaSet": "rs replicaset replicasets replicasets.v1beta1.extensions",
    "ReplicationController": "rc replicationcontroller replicationcontrollers",
    "Job": "job jobs jobs.batch jobs.v1.batch",
    "CronJob": "cj cronjob cronjobs cronjobs.v1beta1.batch",
    "PodTemplate": "podtemplate podtemplates",
}


@pytest.mark.parametrize("kind", _NAMES)
def test_every_name_of_a_kind_is_known(kind: str) -> None:
    for word in _NAMES[kind].split():
        assert split([f"{word}/web", "c.json"]) == (("c.json",), NamedObject(f"{word}/web", kind, "web"))
        assert split(["c.json", word, "web"]) == (("c.json",), NamedObject(f"{word} web", kind, "web"))


@pytest.mark.parametrize("word", ["svc/web", "jobs.batch.volcano.sh/web", "deployments.v1/web", "web", "-", "dir/pod"])
def test_other_words_are_files(word: str) -> None:
    assert split([word]) == ((word,), None)


def test_a_word_that_names_a_file_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod/web").write_text("")
    assert split(["pod/web", "pod"]) == (("pod/web", "pod"), None)
    assert split(["pod/db", "c.json"]) == (("c.json",), NamedObject("pod/db", "Pod", "db"))
    assert split(["c.json", "pods"]) == (("c.json",), None)
