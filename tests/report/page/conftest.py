"""One browser and one window for all tests of the page."""

from tests.report.page.browser import browser, report, window

__all__ = ["browser", "report", "window"]
