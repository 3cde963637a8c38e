"""A stand-in for a Kubernetes cluster and its API server, for tests: a world with a scheduler, controllers and kubelets, over HTTP.

cluster = SimulatedCluster(Behaviour(seed=1, latency=0.005))
world.load(objects)
with Server(world) as server:
    path = server.kubeconfig(tmp_path / "config")
    …
assert world.budget_violations() == []
"""

from tests.api_server.behaviour import Behaviour, Faults
from tests.api_server.refusals import Refused
from tests.api_server.serving.server import Server
from tests.api_server.simulated_cluster import SimulatedCluster

__all__ = ["Behaviour", "Faults", "Refused", "Server", "SimulatedCluster"]
