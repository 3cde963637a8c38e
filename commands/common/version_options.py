"""``--kubernetes-version`` and ``--feature-gate``: the Kubernetes version whose rules apply."""

from __future__ import annotations

import re
from typing import Any

import click

from kubestow.commands.common.option_values import parsed

#: Copy of :data:`kubestow.models.kube.feature_gates.VERSIONS`, whose import would slow ``--help`` down.
_VERSIONS = ("1.34", "1.35", "1.36", "1.37")


class _VersionType(click.Choice[str]):
    """A click type for a supported version; ``v1.36.2`` means 1.36."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = re.fullmatch(r"v?(\d+\.\d+)([.+-].*)?", str(value))
        return super().convert(found[1] if found else value, param, ctx)


version = click.option(
    "--kubernetes-version",
    type=_VersionType(_VERSIONS),
    help="Apply the rules of this version.  [default: the server's if recorded, else the newest kubelet's, else 1.36]",
)
feature_gates = click.option(
    "--feature-gate",
    "feature_gates",
    multiple=True,
    callback=parsed("feature_gates"),
    metavar="NAME=true|false",
    help="Turn a feature gate of Kubernetes on or off; repeatable.  [default: the version's defaults]",
)
