"""docs/apply-serve.yaml has the rights that a server asks for, and no others."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from kubestow import cli
from kubestow.live.apply.lease import Times
from kubestow.live.gates.serve_lease import serve
from kubestow.models.custom_workloads import table
from kubestow.models.snapshot.snapshot import load
from tests.live.gates.stage import Stage, workload
from tests.live.gates.test_gates import NODES, partner
from tests.live.gates.test_serving import until
from tests.live.roles import RIGHTS, Recording, allowed, optional

ROOT: Final = Path(cli.__file__).parent
MANIFEST: Final = ROOT / "docs/apply-serve.yaml"


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def test_the_roles_allow_what_is_asked_for_and_nothing_else(tmp_path: Path) -> None:
    pair = [workload("Deployment", "a", affinity=partner("b"), replicas=1), workload("Deployment", "b", affinity=partner("a"), replicas=1)]
    for each in pair:
        each["spec"]["template"]["metadata"]["annotations"] = {"kubestow.dev/gang": "pair"}
    stage = Stage(NODES, pair, ["n2", "n2"], orders=[1, 1], journaled=False)
    stage.apply()

    async def served() -> None:
        async with stage.gates(tmp_path) as gates:
            task = asyncio.create_task(serve(gates, "one", Times(duration=2, renew=0.05, margin=0.5)))
            await until(lambda: len(stage.told.nodes) == 2 and stage.counts("a") == {"n2": 1} == stage.counts("b"))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    RIGHTS.clear()
    with Recording(stage.world) as stage.server:
        asyncio.run(asyncio.wait_for(served(), 30))
    assert RIGHTS - allowed(MANIFEST) == set()
    assert allowed(MANIFEST) - RIGHTS - optional(allowed(MANIFEST)) == set()


def test_what_is_listed_is_watched_and_is_what_capture_lists() -> None:
    capture = yaml.safe_load((ROOT / "docs/capture-role.yaml").read_text())
    listed = {(group, resource) for rule in capture["rules"] for group in rule["apiGroups"] for resource in rule["resources"]}
    listed -= {(entry.group, f"{entry.kind.lower()}s") for entry in table.entries()}
    for verb in ("list", "watch"):
        assert {right[:2] for right in allowed(MANIFEST) if right[2] == verb} == listed


def test_all_parts_fit_together() -> None:
    found = {document["kind"]: document for document in documents()}
    metadata = found["ServiceAccount"]["metadata"]
    account = {"kind": "ServiceAccount", "name": metadata["name"], "namespace": metadata["namespace"]}
    for kind in ("ClusterRole", "Role"):
        binding = found[f"{kind}Binding"]
        assert binding["subjects"] == [account]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, found[kind]["metadata"]["name"])
    spec = found["Deployment"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == account["name"]
    assert load([str(MANIFEST)], manifests=True).workloads["Deployment"]


def test_the_command_of_the_deployment_is_one() -> None:
    container = next(document for document in documents() if document["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]
    command = cli.main.get_command(None, container["args"][0])  # type: ignore[arg-type] # the lookup needs no context
    assert command is not None
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in shlex.split(shlex.join(container["args"])) if word.startswith("--")} <= options
    result = container["args"][container["args"].index("--result") + 1]
    assert Path(result).parent == Path(container["volumeMounts"][0]["mountPath"])
