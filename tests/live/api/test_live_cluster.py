"""A followed cluster equals the cluster, regardless of what happens to lists and watches."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from kubestow.live.api.answers import Unreachable
from kubestow.live.api.connect import connect
from kubestow.live.api.connection import Connection, ConnectionLimits
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.capture import CaptureOptions, capture
from kubestow.models.snapshot.snapshot import InputError, load
from tests.live.api.server import KINDS, Server, cut, kubeconfig, once, serving, status
from tests.objects import node, pod

FAST = ConnectionLimits(pause=0.001)


@asynccontextmanager
async def following(tmp_path: Path, server: Server) -> AsyncIterator[tuple[LiveCluster, Connection]]:
    async with serving(server), connect(kubeconfig(tmp_path / "config", server.url), limits=FAST) as connection:
        cluster = LiveCluster(connection)
        try:
            await cluster.start()
            yield cluster, connection
        finally:
            await cluster.close()


def follow(tmp_path: Path, server: Server, use: Callable[[LiveCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with following(tmp_path, server) as (cluster, _):
            await use(cluster)

    asyncio.run(asyncio.wait_for(run(), 60))


def small() -> Server:
    server = Server()
    for name in ("n1", "n2"):
        server.put(node(name))
    for index in range(6):
        server.put(pod(f"web-{index}", node_name=f"n{index % 2 + 1}", owner="ReplicaSet/web"))
    return server


def names(cluster: LiveCluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.objects("Pod").values()}


async def equal(server: Server, cluster: LiveCluster) -> None:
    """Wait until all pods are known as the server has them."""

    def same() -> bool | None:
        theirs = {o["metadata"]["uid"]: o["metadata"]["resourceVersion"] for (p, _), o in server.objects.items() if p == "pods"}
        ours = {uid: o["metadata"]["resourceVersion"] for uid, o in cluster.objects("Pod").items()}
        return True if theirs == ours else None

    assert await cluster.until(same, 20)


def test_objects_are_found_by_uid_name_owner_and_node_and_are_as_the_api_gave_them(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        assert names(cluster) == {f"web-{i}" for i in range(6)}
        found = cluster.named("Pod", "web-0", "default")
        assert found is not None
        theirs = server.objects["pods", "default/web-0"]
        assert found == {**theirs, "metadata": {k: v for k, v in theirs["metadata"].items() if k != "managedFields"}}
        assert cluster.pod(found["metadata"]["uid"]) == found
        assert [each["metadata"]["name"] for each in cluster.pods_on("n2")] == ["web-1", "web-3", "web-5"]
        assert len(cluster.pods_of("ReplicaSet-web")) == 6
        assert (cluster.node("n1") or {})["kind"] == "Node"
        assert cluster.node("n3") is None
        assert cluster.pod("nobody") is None

    follow(tmp_path, server, use)


def test_what_happens_is_heard_of(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        waiting = asyncio.create_task(cluster.until(lambda: cluster.named("Pod", "late", "default"), 20))
        await asyncio.sleep(0)
        server.put(pod("late", owner="ReplicaSet/web"))
        assert await waiting is not None
        server.put(pod("late", owner="ReplicaSet/web", node_name="n1"))
        assert await cluster.until(lambda: cluster.pods_on("n1")[3:] or None, 20)
        server.delete("pods", "default/late")
        assert await cluster.until(lambda: None if cluster.named("Pod", "late", "default") else True, 20)
        assert len(cluster.pods_of("ReplicaSet-web")) == 6
        assert len(cluster.pods_on("n1")) == 3
        assert await cluster.until(lambda: cluster.named("Pod", "nobody", "default"), 0.01) is None

    follow(tmp_path, server, use)


def test_a_pod_that_is_recreated_under_its_name_is_another_one(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        before = cluster.named("Pod", "web-0", "default")
        server.delete("pods", "default/web-0")
        server.put(pod("web-0"))
        await equal(server, cluster)
        after = cluster.named("Pod", "web-0", "default")
        assert before is not None
        assert after is not None
        assert before["metadata"]["uid"] != after["metadata"]["uid"]
        assert cluster.pod(before["metadata"]["uid"]) is None

    follow(tmp_path, server, use)


@pytest.mark.full
def test_nothing_is_missed_when_watches_drop_or_what_they_begin_at_is_forgotten(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        for turn in range(8):
            server.drop()
            server.put(pod(f"new-{turn}"))
            server.delete("pods", f"default/{'web' if turn < 6 else 'new'}-{turn % 6}")
            if turn % 2:
                server.forgotten = server.version + 1  # the list afterwards is as new as that
                server.version += 1
            await equal(server, cluster)

    follow(tmp_path, server, use)


@pytest.mark.parametrize("fault", ["drop", "500", "410"])
def test_lists_are_read_again_where_a_page_fails(tmp_path: Path, fault: str) -> None:
    server = Server(page=2)
    server.put(node("n1"))
    for index in range(7):
        server.put(pod(f"p-{index}"))
    second = "pods?limit=500&continue=2-"
    if fault == "drop":
        server.faults += cut("GET", second, 2)
    elif fault == "500":
        server.faults += once("GET", second, lambda: status(500, "InternalError", "etcd is away"), 2)
    else:
        server.faults += once("GET", second, lambda: status(410, "Expired", "the continue token is too old"))

    async def use(cluster: LiveCluster) -> None:
        assert names(cluster) == {f"p-{i}" for i in range(7)}
        assert not server.faults
        assert server.asked("GET", "/pods") == (7 if fault != "410" else 4)

    follow(tmp_path, server, use)


def test_what_went_between_two_pages_of_a_list_that_begins_again_is_gone(tmp_path: Path) -> None:
    server = Server(page=2)
    server.put(node("n1"))
    for index in range(5):
        server.put(pod(f"p-{index}"))

    def expired() -> web.Response:
        server.delete("pods", "default/p-0")  # it was on the first page
        return status(410, "Expired", "the continue token is too old")

    server.faults += once("GET", "pods?limit=500&continue=2-", expired)

    async def use(cluster: LiveCluster) -> None:
        assert names(cluster) == {f"p-{i}" for i in range(1, 5)}

    follow(tmp_path, server, use)


def test_a_refresh_knows_what_no_watch_has_told(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        server.deaf = True
        server.put(pod("new"))
        server.put(pod("web-1", node_name="n1"))
        server.delete("pods", "default/web-0")
        server.delete("pods", "default/web-2")
        server.put(pod("web-2", cpu="2"))
        assert "new" not in names(cluster)
        await cluster.refresh()
        await equal(server, cluster)
        assert (cluster.named("Pod", "web-2", "default") or {})["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
        # The watch reports it late, and in order: no deleted object comes back.
        server.deaf = False
        server.put(pod("last"))
        await cluster.until(lambda: cluster.named("Pod", "last", "default"), 20)
        await equal(server, cluster)

    follow(tmp_path, server, use)


@pytest.mark.full
def test_a_refresh_of_many_changes_is_a_list(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        server.deaf = True
        for index in range(300):
            server.put(pod(f"many-{index}"))
        before = len(server.requests)
        await cluster.refresh()
        await equal(server, cluster)
        assert len(server.requests) - before < 100

    follow(tmp_path, server, use)


def test_refreshes_at_a_time_share_their_requests_and_none_is_older_than_its_call(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        server.deaf = True
        before = len(server.requests)
        kinds = sum(map(len, KINDS.values()))
        first = asyncio.create_task(cluster.refresh())
        await asyncio.sleep(0)
        server.put(pod("new"))
        await asyncio.gather(first, *(cluster.refresh() for _ in range(50)))
        assert "new" in names(cluster)
        assert len(server.requests) - before <= 2 * kinds + 2

    follow(tmp_path, server, use)


def test_a_refresh_that_fails_says_so(tmp_path: Path) -> None:
    server = small()

    async def use(cluster: LiveCluster) -> None:
        server.faults += once("GET", "/pods?limit", lambda: status(403, "Forbidden", "pods is forbidden"))
        with pytest.raises(Unreachable, match="pods: pods is forbidden"):
            await cluster.refresh()
        await cluster.refresh()

    follow(tmp_path, server, use)


def test_kinds_that_the_rights_do_not_cover_are_named(tmp_path: Path) -> None:
    server = small()
    server.faults += once("GET", "/persistentvolumes?", lambda: status(403, "Forbidden", "persistentvolumes is forbidden: no"))

    async def use(cluster: LiveCluster) -> None:
        assert cluster.problems == ["left out: persistentvolumes: persistentvolumes is forbidden: no"]
        assert cluster.objects("PersistentVolume") == {}
        found = cluster.snapshot()
        assert found.capture is not None
        assert found.capture.left_out == ("persistentvolumes: persistentvolumes is forbidden: no",)
        assert found.omissions == ["the snapshot lacks something: persistentvolumes: persistentvolumes is forbidden: no"]

    follow(tmp_path, server, use)


def test_a_kind_that_may_be_listed_and_not_watched_is_read_by_refreshes(tmp_path: Path) -> None:
    server = small()
    server.faults += once("GET", "/services?watch", lambda: status(403, "Forbidden", "services: no watch"), 1_000)

    async def use(cluster: LiveCluster) -> None:
        assert cluster.notes[-1] == "no watch, so it is read before each wave instead: services: services: no watch"
        server.put({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}})
        await cluster.refresh()
        assert cluster.named("Service", "s", "default") is not None

    follow(tmp_path, server, use)


@pytest.mark.parametrize("path", ["/pods?limit", "/nodes?limit", "/pods?watch"])
def test_pods_and_nodes_are_required(tmp_path: Path, path: str) -> None:
    server = small()
    server.faults += once("GET", path, lambda: status(403, "Forbidden", "it is forbidden"), 100)
    plural = path.partition("?")[0][1:]
    with pytest.raises(InputError) as error:
        follow(tmp_path, server, lambda cluster: asyncio.sleep(0))
    assert error.value.problems == [f"{plural}: it is forbidden; expected the right to get, list and watch {plural}"]


def test_the_snapshot_is_that_of_the_document(tmp_path: Path) -> None:
    server = small()
    server.put({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5})

    async def use(cluster: LiveCluster) -> None:
        server.delete("pods", "default/web-3")
        server.put(pod("a-first"))
        await equal(server, cluster)
        written = tmp_path / "cluster.json"
        written.write_bytes(cluster.document())
        found, expected = cluster.snapshot(), load([str(written)])
        assert found.counts() == {"Node": 2, "Pod": 6, "PriorityClass": 1}
        assert [each.metadata.name for each in found.pods] == ["a-first", "web-0", "web-1", "web-2", "web-4", "web-5"]
        assert found.capture is not None
        expected.capture, expected.sha256 = found.capture, found.sha256  # of another second
        assert found == expected

    follow(tmp_path, server, use)


def test_a_snapshot_of_one_moment_is_read_while_other_tasks_go_on(tmp_path: Path) -> None:
    server = small()
    for index in range(2_000):
        server.put(pod(f"many-{index}"))

    async def use(cluster: LiveCluster) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                server.delete("pods", f"default/many-{ticks}")
                await asyncio.sleep(0)

        expected = cluster.snapshot()
        ticking = asyncio.create_task(tick())
        found = await cluster.read_snapshot()
        ticking.cancel()
        assert ticks >= 5
        expected.capture, expected.sha256 = found.capture, found.sha256
        assert found == expected

    follow(tmp_path, server, use)


@pytest.mark.full
def test_the_snapshot_is_that_of_a_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl is a program that passes on what the same server says."""
    server = small()
    server.put(node("n3", images=[{"names": ["x"]}]))
    server.put({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}}})
    server.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": {"replicas": 6, "selector": {}}})
    server.faults += once("GET", "/persistentvolumes?", lambda: status(403, "Forbidden", "persistentvolumes is forbidden: no"), 2)
    kubectl = tmp_path / "kubectl"
    rows = "".join(f"{p} {v} {str(n).lower()} {k}\n" for v, kinds in KINDS.items() for k, (p, n) in kinds.items())
    kubectl.write_text(
        f"""#!{sys.executable}
import json, os, sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen
words = [word for word in sys.argv[1:] if not word.startswith("--")]
if words[0] == "api-resources":
    print({rows!r})
elif words[0] == "config":
    print("here")
else:
    try:
        sys.stdout.write(urlopen(Request(os.environ["SERVER"] + words[-1], headers={{"Accept": "application/json"}})).read().decode())
    except HTTPError as error:
        status = json.loads(error.read())
        sys.exit(f"Error from server ({{status['reason']}}): {{status['message']}}")
"""
    )
    kubectl.chmod(0o755)

    async def use(cluster: LiveCluster) -> None:
        monkeypatch.setenv("SERVER", server.url)
        captured = await asyncio.to_thread(capture, CaptureOptions(kubectl=str(kubectl)))
        written = tmp_path / "captured.json"
        written.write_bytes(b"".join(captured.parts()))
        expected, found = load([str(written)]), cluster.snapshot()
        assert expected.capture is not None
        assert found.capture is not None
        assert replace(found.capture, time="") == replace(expected.capture, time="")
        found.capture, found.sha256 = expected.capture, expected.sha256
        assert found == expected
        assert found.omissions == ["the snapshot lacks something: persistentvolumes: persistentvolumes is forbidden: no"]

    follow(tmp_path, server, use)
