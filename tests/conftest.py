"""Hypothesis draws the same cases in every run, so that a green run stays green; ``--hypothesis-seed=N`` or
``--hypothesis-profile=default`` explores further.

Tests run in several processes by default (pytest-xdist), but a test that is named on the command line runs in this one, so that
``breakpoint()`` and ``print`` work."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
from asyncio import events
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.report.pages import Chromium

#: The checkout, which is the package kubestow.
ROOT = Path(__file__).resolve().parents[1]


def _test_this_checkout() -> None:
    """Make this checkout the package kubestow, here and in processes that tests start, whatever is installed."""
    found = importlib.util.find_spec("kubestow")
    if found is None or found.origin is None or Path(found.origin).resolve().parent != ROOT:
        folder = tempfile.mkdtemp(prefix="kubestow-checkout-")
        Path(folder, "kubestow").symlink_to(ROOT, target_is_directory=True)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        sys.path.insert(0, folder)
        # pytest imports the folder of the checkout as a package before this file, and with it what is installed
        for name in [name for name in sys.modules if name.partition(".")[0] == "kubestow"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))


_test_this_checkout()

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

#: More processes than this wait for each other: every one collects all tests, and CP-SAT takes several cores in some.
MOST_PROCESSES = 4


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that runs this in the background has ^C ignored, in all processes that tests start and interrupt as well
    signal.signal(signal.SIGINT, signal.default_int_handler)


class AllCores:
    """What ``--numprocesses=auto`` means."""

    @staticmethod
    def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
        """Return the number of processes: none for a test that is named, at most four otherwise."""
        named = any("::" in argument for argument in config.invocation_params.args)
        return 0 if named else min(os.cpu_count() or 1, MOST_PROCESSES)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept the options of pytest-xdist that pyproject.toml gives where that plugin is absent or switched off (``-p no:xdist``)."""
    if pluginmanager.hasplugin("xdist"):
        pluginmanager.register(AllCores())
    else:
        parser.addoption("--numprocesses", help="ignored without pytest-xdist")
        parser.addoption("--dist", help="ignored without pytest-xdist")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A browser for reports as a user opens them, the same for the tests of all folders."""
    from tests.report.pages import found_browser

    with found_browser() as run:
        yield run


@pytest.fixture(autouse=True)
def no_loop_of_the_browser(request: pytest.FixtureRequest) -> Iterator[None]:
    """Playwright's synchronous API keeps a loop running in the thread of all tests, in which nobody else could run one of their own."""
    if "report" in request.node.path.parts:
        yield
        return
    running = events._get_running_loop()
    events._set_running_loop(None)
    yield
    events._set_running_loop(running)
