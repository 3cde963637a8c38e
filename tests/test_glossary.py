"""Tests of docs/glossary.md: its form, and that pages and messages do not use the synonyms that it forbids."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Final, NamedTuple

import pytest

from tests import prose

GLOSSARY: Final = "docs/glossary.md"
HEADER: Final = ("term", "meaning", "elsewhere", "do not write")
MAX_MEANING_WORDS: Final = 25

#: Hits that remain, by synonym. The numbers may only fall; a synonym without hits has no entry.
KNOWN_HITS: Final = {
    "broken rule": 6,
    "carried out": 11,
    "carry out": 6,
    "ceiling": 2,
    "detour": 1,
    "not honoured": 1,
    "pods that are left": 9,
    "time that is left": 1,
    "waiting pod": 5,
    "way out": 1,
    "ways out": 5,
}


class Entry(NamedTuple):
    """A row of the glossary.

    Attributes:
        line: Line of the row, from 1.
        term: The term without its class name.
        meaning: One sentence.
        elsewhere: Names in Kubernetes and in the literature.
        forbidden: Synonyms that are not to be used, in lower case unless they are abbreviations.
    """

    line: int
    term: str
    meaning: str
    elsewhere: str
    forbidden: tuple[str, ...]


@cache
def entries() -> tuple[Entry, ...]:
    """Return the rows of all tables of the glossary."""
    found = []
    for number, line in enumerate((prose.ROOT / GLOSSARY).read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or tuple(cells) == HEADER or set(line) <= set("|-"):
            continue
        assert len(cells) == len(HEADER), f"{GLOSSARY}:{number}: {len(cells)} cells"
        term, meaning, elsewhere, forbidden = cells
        found.append(Entry(number, re.sub(r" \(`[^)]*\)$", "", term), meaning, elsewhere, tuple(filter(None, forbidden.split(", ")))))
    return tuple(found)


def _expression(synonym: str) -> re.Pattern[str]:
    """Return a pattern for a synonym and its plural; an abbreviation in capitals matches only in capitals."""
    words = re.escape(synonym).replace(r"\ ", r"[ -]")
    return re.compile(rf"\b{words}(?:s|es)?\b", 0 if synonym.isupper() else re.IGNORECASE)


SYNONYMS: Final = sorted({synonym for entry in entries() for synonym in entry.forbidden})


@cache
def _hits() -> dict[str, list[str]]:
    """Return the places of each forbidden synonym. One pattern for all synonyms sorts out most passages first."""
    patterns = {synonym: _expression(synonym) for synonym in SYNONYMS}
    any_synonym = re.compile("|".join(pattern.pattern for pattern in patterns.values()), re.IGNORECASE)
    found: dict[str, list[str]] = {synonym: [] for synonym in SYNONYMS}
    for each in prose.passages():
        if each.kind in ("docs", "message") and each.file != GLOSSARY and any_synonym.search(each.text):
            for synonym, pattern in patterns.items():
                found[synonym] += [f"{each.file}:{each.line}: {match.group()}" for match in pattern.finditer(each.text)]
    return found


@pytest.mark.parametrize("synonym", SYNONYMS)
def test_pages_and_messages_do_not_use_a_forbidden_synonym(synonym: str) -> None:
    hits = _hits()[synonym]
    assert len(hits) <= KNOWN_HITS.get(synonym, 0), "\n".join(hits)


def test_known_hits_are_of_synonyms_in_the_glossary() -> None:
    assert KNOWN_HITS.keys() <= set(SYNONYMS)


def test_every_term_has_one_row() -> None:
    assert [term for term, count in Counter(entry.term for entry in entries()).items() if count > 1] == []


def test_no_term_is_a_forbidden_synonym_of_another() -> None:
    assert {entry.term.lower() for entry in entries()} & {synonym.lower() for synonym in SYNONYMS} == set()


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.term)
def test_a_meaning_is_one_short_sentence_without_forbidden_synonyms(entry: Entry) -> None:
    meaning = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", entry.meaning)
    assert re.fullmatch(r"[A-Z`].*[^.]\.", meaning)
    assert not re.search(r"[a-z)]\. [A-Z]", meaning), "several sentences"
    assert len(meaning.split()) <= MAX_MEANING_WORDS
    assert [synonym for synonym in SYNONYMS if _expression(synonym).search(meaning)] == []
