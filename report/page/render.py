"""The page as one self-contained file: template, style, script and data."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from kubestow.report.documents.output import one_line

_TEMPLATE: Final = "page.html.j2"
_STYLE: Final = "style.css"
#: Nothing is loaded from anywhere, and of scripts only the page's own runs.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'"


def render(data: dict[str, Any]) -> bytes:
    """Return the whole file as UTF-8; equal data give equal bytes. The script may run, and nothing else: it is named by its hash in the
    page's content security policy."""
    return page(data, _read(_TEMPLATE), _read(_STYLE), script()).encode("utf-8")


def page(data: dict[str, Any], template: str, style: str, code: str) -> str:
    """Return the text of the file. The template is given ``title``, ``version`` and ``policy`` (the content security policy) as texts,
    which it escapes, and ``style``, ``script`` and ``data`` as they are to stand there.

    Raises:
        ValueError: style or script hold what would end their element.
    """
    for text, end in ((code, "</script"), (code, "<!--"), (style, "</style")):
        if end in text.lower():
            raise ValueError(f"the page's own style or script holds {end!r}, which HTML would take for its end")
    environment = Environment(loader=DictLoader({_TEMPLATE: template}), autoescape=True, undefined=StrictUndefined)
    return environment.get_template(_TEMPLATE).render(
        title=one_line(str(data["title"])),
        version=one_line(str(data["version"])),
        policy=POLICY.format(hash_of(code)),
        style=Markup(style),
        script=Markup(code),
        data=Markup(embed(data)),
    )


def embed(data: object) -> str:
    """Return JSON for a script element: ASCII, and without the characters that could end the element or begin markup. What is no text in
    UTF-8 (a lone surrogate) is written as its escape, which JSON.parse reads.

    Raises:
        ValueError: a number that JSON cannot say.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script() -> str:
    """Return all scripts of the page, in the order of their names, which begin with a number, in one function of their own."""
    names = sorted(entry.name for entry in _folder().iterdir() if entry.name[0].isdigit() and entry.name.endswith(".js"))
    return "(() => {\n" + "\n".join(_read(name) for name in names) + "\n})();\n"


def _folder() -> Any:
    return resources.files("kubestow.report.page") / "assets"


@cache
def _read(name: str) -> str:
    text: str = (_folder() / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")  # as a browser reads it: the hash is of that


def hash_of(text: str) -> str:
    """Return a text's hash as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def asset(name: str) -> str:
    """Return the text of a file of the page's, by its name."""
    return _read(name)
