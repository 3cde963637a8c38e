# The types of kubestow.py for those who use it. A module that is no package cannot say itself that it is typed, a package of stubs can
# (https://peps.python.org/pep-0561/). A test compares the two.
import threading
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Final, Literal, final, overload

from checker.violation import InternalFault as InternalFault
from models.documents.answers import Explanation as Explanation
from models.documents.answers import NodeExplanation as NodeExplanation
from models.documents.answers import Verification as Verification
from models.documents.capacity import Capacity
from models.documents.placement import Edits as Edits
from models.documents.placement import Placement as Placement
from models.documents.policy import Policy as Policy
from models.documents.rebalance_plan import Limits as Limits
from models.documents.rebalance_plan import RebalancePlan as RebalancePlan
from models.snapshot.snapshot import InputError as InputError
from models.snapshot.snapshot import Snapshot
from solver.rebalance.problem.options import PlanOptions as PlanOptions
from solver.runtime.options import OnProgress
from solver.runtime.options import Options as Options
from solver.runtime.options import Progress as Progress

Path = str | PathLike[str]
__version__: str
__all__ = [
    "Edits",
    "Explanation",
    "Input",
    "InputError",
    "InternalFault",
    "Limits",
    "NodeExplanation",
    "Options",
    "Placement",
    "PlanOptions",
    "Policy",
    "Progress",
    "RebalancePlan",
    "Verification",
    "explain",
    "load",
    "rebalance",
    "solve",
    "verify",
]

@final
class Input:
    snapshot: Final[Snapshot]
    warnings: Final[tuple[str, ...]]
    policy: Final[Policy]
    workloads: Final[tuple[str, ...]]
    @property
    def notes(self) -> list[str]: ...

def load(
    *paths: Path,
    manifests: Sequence[Path] = (),
    edits: Edits | None = None,
    policy: Policy | Path | None = None,
    catalogue: Path | None = None,
    kubernetes_version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    allow_unknown_fields: bool = False,
) -> Input: ...
def solve(
    given: Input, options: Options | None = None, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> Placement: ...
def rebalance(
    given: Input, options: PlanOptions, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> RebalancePlan: ...
@overload
def explain(
    given: Input, *, pod: str | None = None, workload: str | None = None, per_node: Literal[False] = False, options: Options | None = None
) -> Explanation: ...
@overload
def explain(
    given: Input, *, pod: str | None = None, workload: str | None = None, per_node: Literal[True], options: Options | None = None
) -> NodeExplanation: ...
def verify(given: Input, result: Placement | RebalancePlan | Capacity | Path) -> Verification: ...
