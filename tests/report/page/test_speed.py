"""How fast large pages are: the bounds are generous, as machines differ; the figures are printed (``pytest -s``)."""

from __future__ import annotations

from random import Random

import pytest

from tests.report.page import pagedata
from tests.report.page.browser import Open

pytestmark = [pytest.mark.full, pytest.mark.alone]


def test_two_hundred_nodes_are_ready_at_once(report: Open) -> None:
    data = pagedata.plan(Random(1), 200, 4000, 10, 30)
    opened = report(data)
    ready = opened.do("performance.getEntriesByName('kubestow-ready')[0].startTime")
    opened.page.locator("#map [data-n='5']").click()
    opened.page.wait_for_selector("#panel details")
    assert opened.size <= 2_000_000
    print(f"200 nodes, 4,000 pods: ready after {ready:.0f} ms, {opened.size:,} bytes")
    assert ready <= 2000


def test_five_thousand_nodes_open_and_stay_usable(report: Open) -> None:
    opened = report(pagedata.aggregated(Random(1), 5000, 150_000))
    ready = opened.do("performance.getEntriesByName('kubestow-ready')[0].startTime")
    assert opened.page.locator("#map .tile").count() == 5000
    spent = opened.do("""() => {
      const from = performance.now();
      for (const id of ["first", "next", "last"]) document.getElementById(id).click();
      for (const name of ["workload", "priority", "change"]) document.querySelector(`input[value=${name}]`).click();
      document.body.getBoundingClientRect();
      return performance.now() - from;
    }""")
    print(f"5,000 nodes, 150,000 pods: ready after {ready:.0f} ms, six redraws in {spent:.0f} ms, {opened.size:,} bytes")
    assert spent < 6000
    opened.page.locator("#map [data-n='40']").click()
    opened.page.wait_for_selector("#panel details")
    assert "worker-040" in opened.page.inner_text("#panel-title")
    opened.quiet()
