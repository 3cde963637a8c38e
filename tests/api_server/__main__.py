"""Serve a snapshot until ^C, to try ``kubestow apply`` and kubectl against it by hand."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from pathlib import Path
from typing import get_args

import msgspec

from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.api_server.behaviour import Scheduler


def main() -> None:
    """Serve the snapshot named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.api_server", description=__doc__)
    parser.add_argument("snapshot", type=Path, help="a List of objects, JSON or YAML")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scheduler", choices=get_args(Scheduler), default="at once")
    parser.add_argument("--latency", type=float, default=0.005, help="seconds a request")
    parser.add_argument("--kubeconfig", type=Path, default=Path("kubeconfig.stand-in"), help="written for this server")
    parser.add_argument("--templates-of-pods", action="store_true", help="new pods are like the owner's first one")
    chosen = parser.parse_args()
    text = chosen.snapshot.read_text(encoding="utf-8")
    document = json.loads(text) if text.lstrip().startswith("{") else msgspec.yaml.decode(text)
    world = SimulatedCluster(Behaviour(seed=chosen.seed, scheduler=chosen.scheduler, latency=chosen.latency))
    world.load(document["items"], templates_of_pods=chosen.templates_of_pods)
    with Server(world, chosen.port) as server, contextlib.suppress(KeyboardInterrupt):
        print(f"serving {server.url}; export KUBECONFIG={server.kubeconfig(chosen.kubeconfig)}", flush=True)
        shown = len(world.log)
        while True:
            time.sleep(0.2)
            for entry in world.log[shown:]:
                print(f"{entry.time:10.3f} {entry.actor:12} {entry.verb:7} {entry.kind} {entry.key} {entry.node}", flush=True)
                shown += 1


if __name__ == "__main__":
    main()
