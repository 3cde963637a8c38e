"""Overlays of kustomize among manifests are refused, because they are not applied as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.models.snapshot.snapshot import InputError, load
from kubestow.report.documents import yaml_text
from tests.objects import pod


@pytest.mark.parametrize(("text", "what"), [
    ("resources: [app.yaml]\npatches: [{path: p.yaml}]\nnamePrefix: x-\n", "has patches, namePrefix"),
    ("resources: [../base]\n", "takes objects from ../base"),
    ("resources: [app.yaml]\n", None),
])  # fmt: skip
def test_overlays_are_refused(tmp_path: Path, text: str, what: str | None) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    (tmp_path / "app.yaml").write_text(yaml_text.dump(pod("p")))
    assert len(load([str(tmp_path)]).pods) == 1
    if what is None:
        assert len(load([str(tmp_path)], manifests=True).pods) == 1
        return
    for given in (tmp_path, tmp_path / "kustomization.yaml"):
        with pytest.raises(InputError) as error:
            load([str(given)], manifests=True)
        reason = "so the files next to it are not applied as they are: run kustomize build and pass its output"
        assert error.value.problems == [f"{tmp_path / 'kustomization.yaml'}: {what}, {reason}"]
