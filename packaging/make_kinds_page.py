"""Write the table of docs/workload-kinds.md from the table of workload kinds: ``python packaging/make_kinds_page.py [--write]``.

Without ``--write``, exit with 1 if the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from kubestow.models.custom_workloads import table

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "workload-kinds.md"
_BEGIN: Final = "<!-- begin: packaging/make_kinds_page.py writes this table -->\n"
_END: Final = "<!-- end -->"


def rows() -> str:
    """Return the table of kinds in Markdown."""
    lines = ["| kind | API group, versions | pods | gang | eviction | not followed |", "|---|---|---|---|---|---|"]
    for entry in table.entries():
        inner = f"of the objects in `{entry.wraps}`" if entry.wraps else "none of its own"
        pods = "; ".join(f"`{each.pod}`" for each in entry.sets) or inner
        gangs = dict.fromkeys(entry.gang if each.gang is None else each.gang for each in entry.sets)
        named = ", ".join(f"`{gang}`" for gang in gangs) or ("`{name}`" if entry.wraps else "")
        ignored = ", ".join(f"`{path}`" for path in entry.unmodelled)
        name = f"[{entry.kind}]({entry.source}) of {entry.system}" + (f", shown as {entry.display}" if entry.display else "")
        lines.append(f"| {name} | {entry.group} {', '.join(entry.versions)} | {pods} | {named} | {entry.evicted} | {ignored} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the current table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}{rows()}{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    current = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(current, encoding="utf-8")
    elif current != PAGE.read_text(encoding="utf-8"):
        sys.exit("docs/workload-kinds.md is out of date: python packaging/make_kinds_page.py --write")
