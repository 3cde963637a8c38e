"""The work of ``kubestow upgrade``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.core.given import WhatIf
from kubestow.commands.running import inputs, output, searching
from kubestow.commands.upgrade import UpgradeRequest
from kubestow.models.edits.upgrade import read
from kubestow.report.documents import results
from kubestow.report.terminal.capacity import upgrade as terminal
from kubestow.report.writers import WrittenResult
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
from kubestow.solver.capacity.upgrade.upgrade import upgrade as find


def run(request: UpgradeRequest) -> NoReturn:
    """Plan the waves and write the result."""
    streams = request.streams
    policy = inputs.read_policy(request.choices)
    to = read(request.change) if request.change is not None else None
    run = searching.SearchRun(streams)
    given = run.read(policy, WhatIf())
    snapshot = given.after
    search_options = searching.search_options(request.search, request.choices, policy)
    upgrade_options = UpgradeOptions(request.pool, request.max_unavailable, request.surge, request.by, to, search_options)
    found = run.search(partial(find, snapshot, upgrade_options))
    given.sign(found)
    run.accept(found)
    table, result = partial(terminal.upgrade, found, snapshot), WrittenResult(found, snapshot)
    output.write_document(streams, table, partial(results.result_document, found), result)
    run.end(DONE if found.complete else INCOMPLETE, f"{terminal.verdict_line(found)}; {run.seconds():.1f} s")
