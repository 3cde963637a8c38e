"""The page in a real browser is harmless with hostile snapshots, documents and addresses."""

from __future__ import annotations

from random import Random

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open
from tests.report.page.reading import tour

pytestmark = pytest.mark.full

EVIL = "<script>window.harm=1</script>"
HOSTILE = (
    EVIL,
    "<img src=x onerror=window.harm=1>",
    "</script><script>window.harm=1</script>",
    '"><svg onload=window.harm=1>&lt;b&gt;',
    "\u202eright\u2067to left\u0000\u2028{{7*7}}'\"`${window.harm=1}",
    "javascript:window.harm=1 " + "long" * 200,
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_outside_is_text(report: Open, text: str) -> None:
    opened = report(pagedata.hostile(text), width=390)
    tour(opened)
    assert opened.do("window.harm") is None
    assert opened.do("document.scripts.length") == 2
    assert opened.page.locator("img, iframe, object, embed, link:not([rel=icon]), a[href^='javascript']").count() == 0
    assert opened.do("document.querySelector('#panel-title').textContent") == f"2{text}"
    shown = opened.do("[...document.querySelectorAll('#panel .pod .name')].map((each) => each.textContent)")
    assert any(each.endswith(f"/{text}") for each in shown)
    assert opened.do("document.documentElement.scrollWidth") <= 390
    opened.quiet()


def test_the_policy_keeps_out_what_would_be_written_into_the_page(report: Open) -> None:
    opened = report(pagedata.blank(1))
    opened.do("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.harm = 1'}))")
    opened.do("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/x.png'}))")
    opened.page.wait_for_timeout(100)
    assert opened.do("window.harm") is None
    assert len([error for error in opened.errors if "Content Security Policy" in error]) >= 2, opened.errors


def test_the_page_works_where_the_browser_keeps_nothing(report: Open) -> None:
    opened = report(pagedata.blank(2), own=True)
    opened.page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})")
    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready=true]")
    opened.page.click("#theme label:has-text('Dark')")
    assert opened.do("document.documentElement.dataset.theme") == "dark"
    opened.quiet()


@pytest.mark.parametrize(
    "fragment",
    [
        "node=<img src=x onerror=window.harm=1>&colour=<b>&size=7&view=none",
        "node=%E0%A4%A&wave=999999&wave=-1",
        "wave=__proto__&node=constructor&colour=toString",
        "&&==&%&node",
    ],
)
def test_addresses_do_no_harm(report: Open, fragment: str) -> None:
    opened = report(pagedata.plan(Random(1), 3, 20, 3), f"#{fragment}")
    assert opened.do("window.harm") is None
    assert opened.page.is_hidden("#panel")
    assert opened.page.inner_text("#wave").startswith("Wave 3")
    opened.page.click("#previous")
    assert opened.do("location.hash") == "#wave=2"
    opened.quiet()
