"""``find`` and ``findAll``, implemented with the library's own RE2.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library/regex.go
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from kubestow.models.cel.condition import CelFault, no_overload, outside

_CONFIG: Final = "name: regex\nextensions:\n  - name: regex\n  - name: optional\n"
#: Tokens of a pattern. They distinguish groups from escaped parentheses and from those in character classes.
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:[^]]*:\]|[^\]\\])*\]|\((?:\?P?<[A-Za-z0-9_]+>)?(?!\?)|.", re.DOTALL)


@lru_cache(maxsize=1)
def _programs() -> dict[str, Any]:
    from cel_expr_python import cel

    environment = cel.NewEnv(config=cel.NewEnvConfigFromYaml(_CONFIG), variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    sources = {
        "matches": "text.matches(pattern)",
        "find": "regex.extract(text, pattern).orValue('')",
        "findAll": "regex.extractAll(text, pattern)",
    }
    return {name: environment.compile(source) for name, source in sources.items()}


def run(name: str, text: str, pattern: str) -> Any:
    """Return the result of one of the library's functions: matches, find or findAll.

    Raises:
        CelFault: the pattern is not a regular expression.
    """
    result = _programs()[name].eval(data={"text": text, "pattern": pattern})
    if result.type().name() == "ERROR":
        raise CelFault(f"illegal regular expression: {str(result.value())[:200]}")
    return result.plain_value()


def _without_captures(pattern: str) -> str:
    # With a group, the library's functions return the group's match. Kubernetes' find returns the whole match.
    return "".join("(?:" if token.startswith("(") else token for token in _TOKEN.findall(pattern))


def _find(text: object, pattern: object) -> str:
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise no_overload()
    run("matches", "", pattern)
    return str(run("find", text, _without_captures(pattern)))


def _find_all(text: object, pattern: object, limit: object = -1) -> list[str]:
    if not isinstance(text, str) or not isinstance(pattern, str) or not isinstance(limit, int) or isinstance(limit, bool):
        raise no_overload()
    bare = _without_captures(pattern)
    run("matches", "", pattern)
    if (run("matches", text, f"^(?:{bare})$") and not text) or run("matches", "", bare):
        raise outside("findAll with a pattern that matches the empty text")
    matches = list(run("findAll", text, bare))
    return matches if limit < 0 else matches[:limit]


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {"find": _find, "findAll": _find_all}
