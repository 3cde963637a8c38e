"""The folders of charts, by the names that Helm's output uses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError
from kubestow.models.snapshot.yaml_reader import YamlError, documents


def folders(charts: Sequence[str]) -> dict[str, str]:
    """Return the folders of charts by the names in their Chart.yaml.

    Raises:
        InputError: A folder has no Chart.yaml, or one without a name; or two charts share a name.
    """
    found: dict[str, str] = {}
    problems = []
    for folder in charts:
        file = os.path.join(folder, "Chart.yaml")
        try:
            chart = next(documents(sources.read(file)), None)
        except (ValueError, YamlError) as error:
            problems.append(f"{file}: {error}")
            continue
        name = chart.get("name") if isinstance(chart, Mapping) else None
        if not isinstance(name, str) or not name:
            problems.append(f"{file}: name: missing, expected the name of the chart")
        elif found.setdefault(name, folder) != folder:
            problems.append(f"{file}: name: {name} is already that of the chart in {found[name]}")
    if problems:
        raise InputError(problems)
    return found
