"""The page as one self-contained file with template, style, script and data."""

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
#: Nothing is loaded from elsewhere, and only the page's own script runs.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'"


def render(data: dict[str, Any]) -> bytes:
    """Return the whole file as UTF-8. Equal data give equal bytes.

    The content security policy permits only the page's script, by its hash.
    """
    return page(data, _read(_TEMPLATE), _read(_STYLE), script()).encode("utf-8")


def page(data: dict[str, Any], template: str, style: str, code: str) -> str:
    """Return the text of the file.

    The template gets ``title``, ``version`` and ``policy`` (the content security policy) as texts, which it
    escapes, and ``style``, ``script`` and ``data`` verbatim.

    Raises:
        ValueError: Style or script contain the end of their element.
    """
    for text, end in ((code, "</script"), (code, "<!--"), (style, "</style")):
        if end in text.lower():
            raise ValueError(f"the page's own style or script contains {end!r}, which would end its HTML element")
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
    """Return JSON for a script element: ASCII, without characters that could end the element or begin markup.

    Lone surrogates are written as escapes, which JSON.parse accepts.

    Raises:
        ValueError: A number has no JSON form.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script() -> str:
    """Return all scripts of the page in one function, ordered by their numbered names."""
    names = sorted(entry.name for entry in _folder().iterdir() if entry.name[0].isdigit() and entry.name.endswith(".js"))
    return "(() => {\n" + "\n".join(_read(name) for name in names) + "\n})();\n"


def _folder() -> Any:
    return resources.files("kubestow.report.page") / "assets"


@cache
def _read(name: str) -> str:
    text: str = (_folder() / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")  # as a browser reads it, for the hash


def hash_of(text: str) -> str:
    """Return a text's hash in the notation of a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def asset(name: str) -> str:
    """Return the text of an asset by its file name."""
    return _read(name)
