"""The Python library of kubestow: six functions that read files and return documents, like the commands of the same names.

>>> import kubestow
>>> given = kubestow.load("instances/quickstart.yaml")
>>> placement = kubestow.solve(given)
>>> placement.status, len(placement.assignments)
('optimal', 15)

Documents are the Structs that the command line prints as JSON: ``msgspec.json.encode(placement)``, ``placement.assignments[0].node``.
The checker verifies every result before it is returned. The functions print nothing and handle no signals. Messages that commands print on
standard error are in ``warnings`` and ``notes`` of the :class:`Input` from :func:`load`, and in ``notes`` and ``unmodelled`` of results.

All functions raise:

* :class:`InputError` for bad input, with one line for each problem in ``problems``, as commands print it.
* ValueError for arguments that cannot be combined (exit code 2 of commands). The message names the options of the command line.
* TypeError for an argument of the wrong type.
* :class:`InternalFault` if the checker finds a result invalid, which is a bug in kubestow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubestow.commands import VERSION

if TYPE_CHECKING:
    from kubestow.library import Edits as Edits
    from kubestow.library import Explanation as Explanation
    from kubestow.library import Input as Input
    from kubestow.library import InputError as InputError
    from kubestow.library import InternalFault as InternalFault
    from kubestow.library import Limits as Limits
    from kubestow.library import NodeExplanation as NodeExplanation
    from kubestow.library import Options as Options
    from kubestow.library import Placement as Placement
    from kubestow.library import PlanOptions as PlanOptions
    from kubestow.library import Policy as Policy
    from kubestow.library import Progress as Progress
    from kubestow.library import RebalancePlan as RebalancePlan
    from kubestow.library import Verification as Verification
    from kubestow.library import explain as explain
    from kubestow.library import load as load
    from kubestow.library import rebalance as rebalance
    from kubestow.library import simulate as simulate
    from kubestow.library import solve as solve
    from kubestow.library import verify as verify

__version__ = VERSION
__all__ = [
    "Edits", "Explanation", "Input", "InputError", "InternalFault", "Limits", "NodeExplanation", "Options", "Placement", "PlanOptions",
    "Policy", "Progress", "RebalancePlan", "Verification", "explain", "load", "rebalance", "simulate", "solve", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the library on first access, so that commands start without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kubestow import library

    value = getattr(library, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
