"""Each seed has a walk-through, and each example of a seed is in one. Their runs and links are checked by ``tests/test_docs.py``."""

from __future__ import annotations

import re
from pathlib import Path

from kubestow import cli

INSTANCES = Path(cli.__file__).resolve().parent / "instances"
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in sorted((INSTANCES / "walkthroughs").glob("*.md"))}


def test_each_seed_has_a_walk_through_that_the_readme_names() -> None:
    assert [name[:3] for name in TEXTS] == ["000", "001", "002", "003", "004"]
    readme = (INSTANCES / "README.md").read_text(encoding="utf-8")
    assert [name for name in TEXTS if f"](walkthroughs/{name})" not in readme] == []


def test_every_example_of_a_seed_is_in_a_walk_through() -> None:
    links = {target for text in TEXTS.values() for target in re.findall(r"\]\(\.\./seeds/([\w-]+\.yaml)\)", text)}
    assert {path.name for path in (INSTANCES / "seeds").glob("*.yaml")} == links
