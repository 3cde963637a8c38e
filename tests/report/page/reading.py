"""Actions of tests on a page, and functions that read its contents."""

from __future__ import annotations

from typing import Any

from tests.report.page.browser import Opened

_TOUR = """async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const press = (id, times) => { for (let i = 0; i < times && document.getElementById(id); i += 1) document.getElementById(id).click(); };
  all("input[name=colour], input[name=measure], input[name=views]").forEach((each) => each.click());
  press("previous", 6);
  press("next", 6);
  for (const node of all("#map [data-n]").slice(0, 3)) {
    node.click();
    all("summary").forEach((each) => each.click());
    await new Promise((done) => setTimeout(done, 5));
  }
  const search = document.getElementById("search");
  for (const text of ["shop", "worker", "no such thing"]) {
    search.value = text;
    for (const key of ["ArrowDown", "Escape"]) search.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  }
  dispatchEvent(new Event("beforeprint"));
}"""


def tour(opened: Opened) -> None:
    """Everything once: colourings, measures, all positions, all panels that there are up to three, search, all that is folded."""
    opened.do(_TOUR)


def cells(opened: Opened) -> list[list[int]]:
    """The pods that are drawn in each node."""
    opened.do("dispatchEvent(new Event('beforeprint'))")
    found = opened.do(
        "[...document.querySelectorAll('#map [data-n]')].map((each) => "
        "[Number(each.dataset.n), [...each.querySelectorAll('[data-p]')].map((cell) => Number(cell.dataset.p))])"
    )
    return [sorted(pods) for _, pods in sorted(found)]


def by_node(data: dict[str, Any], place: list[int]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in data["nodes"]["name"]]
    for p, n in enumerate(place):
        if n >= 0:
            found[n].append(p)
    return found


def labels(opened: Opened) -> list[str]:
    found = opened.do(
        "[...document.querySelectorAll('#map [data-n]')].map((each) => [Number(each.dataset.n), each.getAttribute('aria-label')])"
    )
    return [label for _, label in sorted(found)]
