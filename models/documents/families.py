"""Registry of the families of preferences: a package has one module and one class per family."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from kubestow.models.documents.policy import Multipliers


def found(package: str, path: Iterable[str]) -> list[type]:
    """Return the classes of a package's modules that have a name, in the order of the policy's multipliers.

    Args:
        package: The package's name.
        path: Its ``__path__``.

    Raises:
        ValueError: A family has no multiplier.
    """
    modules = [import_module(f"{package}.{module.name}") for module in iter_modules(path)]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    named = {str(vars(kind)["name"]): kind for kind in kinds if "name" in vars(kind)}
    return [named[name] for name in sorted(named, key=Multipliers.__struct_fields__.index)]
