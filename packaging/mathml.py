"""Formulas of the pages as MathML, an extension of Python-Markdown: the site shows them without scripts, and fetches nothing.

Pages write formulas as GitHub reads them: a fenced block ``math``, or an inline ``$`…`$``.
"""

from __future__ import annotations

import re
from typing import Final

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

_FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"\$`([^`]+)`\$")


class _Formulas(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        text, done, parts = "\n".join(lines), 0, list[str]()
        for block in _FENCED.finditer(text):  # dollars in other blocks of code are no formulas
            parts.append(self._inline(text[done : block.start()]))
            kind, body = block.groups()
            parts.append(f"\n{self._store(convert(body.strip(), display='block'))}\n" if kind == "math" else block.group())
            done = block.end()
        parts.append(self._inline(text[done:]))
        return "".join(parts).split("\n")

    def _inline(self, text: str) -> str:
        return _INLINE.sub(lambda found: self._store(convert(found.group(1))), text)

    def _store(self, formula: str) -> str:
        return str(self.md.htmlStash.store(formula))


class MathML(Extension):
    """Turn formulas into MathML before anything else reads the page."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Formulas(md), "formulas", 27)  # normalize_whitespace, 30, comes before; fenced_code, 25, after


def makeExtension(**settings: object) -> MathML:
    """Return the extension, as Python-Markdown asks for it by the module's name."""
    return MathML(**settings)
