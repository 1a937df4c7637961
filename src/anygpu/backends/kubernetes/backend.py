"""A Kubernetes cluster. Each attempt is a Job with one pod, and needs no image of anygpu.

If the server never comes back, Kubernetes ends the pod after the longest run of an attempt.
"""

from typing import TYPE_CHECKING

from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.backends.registry import BackendContext

if TYPE_CHECKING:
    from anygpu.backends.kubernetes.attempts import KubernetesBackend

Options = KubernetesOptions  # the registry finds the options by this name
NEEDED_MODULES, EXTRA = ("lightkube",), "kubernetes"


async def open_backend(name: str, options: KubernetesOptions, context: BackendContext) -> "KubernetesBackend":
    from anygpu.backends.kubernetes.attempts import KubernetesBackend

    return KubernetesBackend(
        name,
        options,
        secret=context.secret,
        on_change=context.on_change,
        relay=context.relays.choose(options.relay),
    )
