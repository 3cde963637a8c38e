"""Configuration of pytest and Hypothesis.

Hypothesis draws the same cases in every run, so that a green run stays green. ``--hypothesis-seed=N`` or ``--hypothesis-profile=default``
explores further cases.

Tests run in several processes by default (pytest-xdist). A test that is named on the command line runs in this process, so that
``breakpoint()`` and ``print`` work."""

from __future__ import annotations

import atexit
import gc
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

#: The root of the checkout, which is the package kubestow.
ROOT = Path(__file__).resolve().parents[1]


def _test_this_checkout() -> None:
    """Make this checkout the package kubestow, here and in child processes, even if another version is installed."""
    found = importlib.util.find_spec("kubestow")
    if found is None or found.origin is None or Path(found.origin).resolve().parent != ROOT:
        folder = tempfile.mkdtemp(prefix="kubestow-checkout-")
        Path(folder, "kubestow").symlink_to(ROOT, target_is_directory=True)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        sys.path.insert(0, folder)
        # before this file, pytest imports the folder of the checkout as a package, and with it the installed version
        for name in [name for name in sys.modules if name.partition(".")[0] == "kubestow"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))


_test_this_checkout()

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

#: Maximum number of test processes. More would slow each other down: each collects all tests, and CP-SAT uses several cores.
MOST_PROCESSES = 4


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # in the background, a shell ignores ^C, also for the child processes that tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: The garbage collector would look at the thousands of tests again and again: half of the time of collecting them.
gc.disable()


def pytest_collection_finish() -> None:
    """Turn the garbage collector on for the tests, which it need not look at: they live as long as the process."""
    gc.freeze()
    gc.enable()


class AllCores:
    """A pytest plugin that defines ``--numprocesses=auto``."""

    @staticmethod
    def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
        """Return 0 for a named test, otherwise one more than cores, at most four, because many tests wait."""
        named = any("::" in argument for argument in config.invocation_params.args)
        return 0 if named else min((os.cpu_count() or 1) + 1, MOST_PROCESSES)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Accept the pytest-xdist options of pyproject.toml even if that plugin is missing or disabled (``-p no:xdist``)."""
    if pluginmanager.hasplugin("xdist"):
        pluginmanager.register(AllCores())
    else:
        parser.addoption("--numprocesses", help="ignored without pytest-xdist")
        parser.addoption("--dist", help="ignored without pytest-xdist")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Return a browser for reports, shared by all tests."""
    from tests.report.pages import found_browser

    with found_browser() as run:
        yield run


@pytest.fixture(autouse=True)
def no_loop_of_the_browser(request: pytest.FixtureRequest) -> Iterator[None]:
    """Detach Playwright's event loop, which would prevent tests from running loops of their own in this thread."""
    if "report" in request.node.path.parts:
        yield
        return
    running = events._get_running_loop()
    events._set_running_loop(None)
    yield
    events._set_running_loop(running)
