"""The engines of a search as strategies: how far each of them goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class EngineStrategy:
    """How far a search goes after construction and repair.

    Attributes:
        name: The value of ``--engine``.
        whole_models: CP-SAT may get an exact model of the whole.
        neighbourhoods: CP-SAT may get a few nodes at a time.
    """

    name: str
    whole_models: bool
    neighbourhoods: bool

    @property
    def searches(self) -> bool:
        """True if CP-SAT is used for the whole or parts of it, not construction and repair alone."""
        return self.whole_models or self.neighbourhoods

    @property
    def chooses(self) -> bool:
        """True if the size of the instance decides how it is searched. Notes of a result then name the choice."""
        return self.whole_models and self.neighbourhoods

    def takes_whole(self, variables: int, limit: int, max_limit: int | None = None) -> bool:
        """Return whether a model of this size is solved as a whole.

        Args:
            variables: Size of the model.
            limit: Largest model of an engine that can also search neighbourhoods.
            max_limit: Largest model of one that cannot; None for any.
        """
        own = limit if self.neighbourhoods else max_limit
        return self.whole_models and (own is None or variables <= own)


ENGINES: Final = {
    engine.name: engine
    for engine in (
        EngineStrategy("auto", whole_models=True, neighbourhoods=True),
        EngineStrategy("exact", whole_models=True, neighbourhoods=False),
        EngineStrategy("greedy", whole_models=False, neighbourhoods=False),
        EngineStrategy("lns", whole_models=False, neighbourhoods=True),
    )
}
