"""A stand-in for a Kubernetes cluster and its API server, for tests: a world with a scheduler, controllers and kubelets, over HTTP.

The package stands on its own: it reads Kubernetes' objects itself and imports no module of kubestow, so that it cannot repeat a mistake of
the code that it judges. Other tests use the names below, and no module of it. ``tests/test_contracts.py`` checks both.

cluster = SimulatedCluster(Behaviour(seed=1, latency=0.005))
world.load(objects)
with Server(world) as server:
    path = server.kubeconfig(tmp_path / "config")
    …
assert world.budget_violations() == []
"""

from tests.api_server.behaviour import Behaviour, Faults, Scheduler
from tests.api_server.core import Entry
from tests.api_server.refusals import Refused
from tests.api_server.rules.quantities import amounts, requests
from tests.api_server.serving.server import Server
from tests.api_server.simulated_cluster import SimulatedCluster

__all__ = ["Behaviour", "Entry", "Faults", "Refused", "Scheduler", "Server", "SimulatedCluster", "amounts", "requests"]
