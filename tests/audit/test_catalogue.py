"""Every code has an instance that triggers it and one that does not, and docs/audit.md explains every code.

``python tests/audit/test_catalogue.py --write`` renews the codes in docs/audit.md.
"""

from __future__ import annotations

import re
import sys
import textwrap
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.audit.catalogue import CODES
from kubestow.audit.run import AuditOptions, audit
from kubestow.audit.view.finding import Code
from kubestow.models.documents.policy import DEFAULT, Policy, read
from kubestow.models.snapshot.snapshot import load
from tests.tiers import sampled

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "audit.md"
INSTANCES = ROOT / "instances" / "audit"
PAGE_COLUMNS = 100
BEGIN, END = "<!-- codes -->\n", "<!-- end of codes -->"
GROUPS = {
    "1": "Rules that are broken now",
    "2": "Selectors, and rules that can never hold",
    "3": "Anti-affinity that hogs",
    "4": "Spread constraints",
    "5": "Rolling updates and redundancy of workloads",
    "6": "Disruption budgets",
    "7": "Annotations",
    "8": "Hygiene",
    "9": "The control plane",
}


def instances(code: str) -> tuple[Path, Path]:
    """The instance that triggers a code, and the one that does not."""
    found = sorted(INSTANCES.glob(f"{code}-*.yaml"))
    triggers = [path for path in found if not path.stem.endswith("-fixed")]
    fixed = [path for path in found if path.stem.endswith("-fixed")]
    assert (len(triggers), len(fixed)) == (1, 1), f"{code}: {[path.name for path in found]}"
    return triggers[0], fixed[0]


@cache
def codes_of(path: Path) -> frozenset[str]:
    options = AuditOptions(time_limit=30, policy=policy_of(path.name[:5]))
    return frozenset(finding.code for finding in audit(load([str(path)]), options).findings)


def policy_file(code: str) -> Path | None:
    """The policy of a code that no default finds."""
    path = INSTANCES / "policies" / f"{code}.yaml"
    return path if path.exists() else None


def policy_of(code: str) -> Policy:
    path = policy_file(code)
    return DEFAULT if path is None else read(str(path))


@pytest.mark.parametrize("code", sampled(sorted(CODES), every=6))
def test_each_code_has_an_instance_that_triggers_it_and_one_that_does_not(code: str) -> None:
    triggers, fixed = instances(code)
    assert triggers.name == f"{code}-{CODES[code].name}.yaml"
    assert code in codes_of(triggers)
    assert code not in codes_of(fixed)


def test_no_instance_is_left_over() -> None:
    assert {path.name[:5] for path in INSTANCES.glob("*.yaml")} == set(CODES)
    assert {path.stem for path in INSTANCES.glob("policies/*.yaml")} <= set(CODES)


def test_codes_are_well_formed_and_given_once() -> None:
    for code, kind in CODES.items():
        assert re.fullmatch(r"KS[1-9]\d\d", code)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
        assert kind.title[0].isupper()
        assert kind.title[-1] != "."
        assert kind.why.endswith(".")
        assert kind.fix.endswith(".")
    assert len({kind.name for kind in CODES.values()}) == len(CODES)


def wrapped(paragraph: str) -> str:
    """Wrap a paragraph of the page. A long link gets a line to itself."""
    return textwrap.fill(paragraph, PAGE_COLUMNS, break_long_words=False, break_on_hyphens=False)


def entry(kind: Code) -> str:
    triggers, fixed = (f"[`{path.name}`](../{path.relative_to(ROOT).as_posix()})" for path in instances(kind.code))
    policy = policy_file(kind.code)
    under = f", under [a policy](../{policy.relative_to(ROOT).as_posix()})" if policy is not None else ""
    paragraphs = (
        f"**{kind.title}** ({kind.severity}). {kind.why}",
        f"*What to do.* {kind.fix}",
        f"Found in {triggers}, not in {fixed}{under}.",
    )
    return f"### {kind.code} {kind.name}\n\n" + "\n\n".join(map(wrapped, paragraphs)) + "\n"


def section() -> str:
    """All codes, as docs/audit.md lists them."""
    parts = []
    for digit, kinds in groupby((CODES[code] for code in sorted(CODES)), key=lambda kind: kind.code[2]):
        parts.append(f"## {GROUPS[digit]}\n\n" + "\n".join(entry(kind) for kind in kinds))
    return "\n" + "\n".join(parts) + "\n"


def test_the_page_explains_every_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == section()


if __name__ == "__main__" and "--write" in sys.argv:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + section() + END + rest.partition(END)[2], encoding="utf-8")
