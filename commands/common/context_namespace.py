"""The namespace of a kubectl context."""

from __future__ import annotations

from kubestow.live.capture import CaptureOptions
from kubestow.live.capture_kubectl import Kubectl, KubectlError
from kubestow.models.snapshot.object_names import is_label


def context_namespace(program: str, context: str | None, kubeconfig: str | None) -> str | None:
    """Return the namespace of kubectl's context; None if it has none, or kubectl fails."""
    options = CaptureOptions(program, context, kubeconfig)
    try:
        found = Kubectl(options.kubectl, options.arguments(), options.timeout).namespace()
    except KubectlError:
        return None  # the capture will report the problem
    return found if is_label(found) else None
