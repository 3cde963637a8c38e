"""docs/fields.md, made of verdicts.txt."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Final

from kubestow.models.snapshot.api_types import TABLE
from tests.fields.api_tree import heads
from tests.fields.table import KEYS, KINDS, ROWS, VERDICTS, WHOLE, Row, counts

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "fields.md"
#: Verdicts as the table shows them, also for fields that share the verdicts of another path.
_WORDS: Final = {**VERDICTS, "as": "as there"}
_HEAD: Final = """# Fields

Every field of Kubernetes' API types ({source}), with one of four verdicts:

* **modelled**: kubestow reads the field; the linked page explains its use.
* **named as unmodelled**: a result that depends on the field says so, usually under `unmodelled`
  ([rules.md](rules.md#what-is-not-modelled)).
* **without effect**: the field changes no placement and no consequence of one; the table says why.
* **decides, not named yet**: the field may change a placement, but kubestow ignores it without a
  message. The aim is an empty list.

Paths are those of `kubectl explain`.

* A verdict applies to all fields below its path. A longer path takes precedence.
* `{{a, b}}` abbreviates several paths.
* Kinds are read in their best version; older versions of `resource.k8s.io` are converted.
* Pod templates and templates of claims count once, with the pod and the claim.

`python tests/fields/test_fields.py --write` generates this page. A test fails for a field without a
verdict, and for a verdict without its field.

"""


def _total() -> dict[str, Counter[str]]:
    return {kind: counts(kind) for kind in sorted(heads().keys() - WHOLE)}


def _paths_of(section: str) -> Counter[str]:
    """Return the number of kinds, or keys, with each verdict."""
    found: Counter[str] = Counter()
    for row in ROWS:
        found[row.verdict] += len(row.paths) if row.kinds == (section,) else 0
    return found


def _summary() -> str:
    found, whole, keys = _total(), _paths_of(KINDS), _paths_of(KEYS)
    parts = [
        "## Counts\n\n| verdict | fields | whole kinds | annotations and labels |\n|---|---:|---:|---:|\n",
        *(f"| {_WORDS[v]} | {sum(c[v] for c in found.values()):,} | {whole[v]} | {keys[v]} |\n" for v in VERDICTS),
        "\n| kind | " + " | ".join(_WORDS[v] for v in VERDICTS) + " |\n|---|" + "---:|" * len(VERDICTS) + "\n",
        *(f"| {kind} | " + " | ".join(str(count[v]) for v in VERDICTS) + " |\n" for kind, count in found.items()),
    ]
    return "".join(parts)


def _line(row: Row) -> str:
    shown = row.shown.replace(",", ", ").replace("  ", " ")
    why = f"`{row.why}`" if row.verdict == "as" else row.why
    return f"| `{shown}` | {_WORDS[row.verdict]} | {why} |\n"


def text() -> str:
    """Return the page."""
    parts = [_HEAD.format(source=TABLE.source), _summary()]
    titles = {("*",): "All kinds", (KINDS,): "Whole kinds", (KEYS,): "Annotations and labels"}
    for section, rows in groupby(ROWS, key=lambda row: row.kinds):
        title = titles.get(section, ", ".join(section))
        first = {KINDS: "kinds", KEYS: "key"}.get(section[0], "fields")
        parts.append(f"\n## {title}\n\n| {first} | verdict | where or why |\n|---|---|---|\n" + "".join(map(_line, rows)))
    return "".join(parts)
