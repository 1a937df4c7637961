"""Warnings about names in a job (GPU, backend, secret) that the server does not know."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from anygpu.suggest import suggestion

if TYPE_CHECKING:
    from anygpu.sdk.client import Client

MAX_SCRIPT_BYTES = 1 << 20


def submission_warnings(client: "Client", spec: Mapping[str, Any]) -> list[str]:
    """Return a warning for each secret of the job that the server does not have.

    The job is submitted anyway, because the secret may be added before it starts.
    """
    from anygpu.spec.shorthand import long_form

    secrets = long_form("secrets", spec.get("secrets"))
    if not isinstance(secrets, Mapping) or not secrets:
        return []
    return secret_warnings({str(name) for name in secrets.values()}, _secret_names(client))


def may_need_gpu(spec: Mapping[str, Any]) -> bool:
    """Return whether the script of a job without a GPU mentions CUDA, so that a plan may show that it needs a GPU.

    This reads one file; a plan takes much longer.
    """
    from anygpu.cli.jobs.job_file import find_script
    from anygpu.sdk.upload.workdir import has_uploaded_files

    resources = spec.get("resources")
    asks_for_gpu = isinstance(resources, Mapping) and resources.get("gpu") is not None
    script = None if asks_for_gpu or has_uploaded_files(spec) else find_script(spec)
    if script is None:
        return False
    with script.open("rb") as file:
        text = file.read(MAX_SCRIPT_BYTES)
    return b"cuda" in text and b"is_available" not in text


def gpu_warnings(kind: str) -> list[str]:
    from anygpu.plan.hardware import gpus

    if not kind or gpus.is_known(kind):
        return []
    near = gpus.closest_kind(kind)
    hint = f"Did you mean {near!r}?" if near else "`anygpu catalog show` lists the known types."
    return [f"Unknown GPU type {kind!r}. {hint} The job waits until a machine offers it."]


def backend_warnings(names: Collection[str], configured: Collection[str]) -> list[str]:
    from anygpu.spec.shorthand import STRATEGIES

    missing = [name for name in names if name not in configured] if configured else []
    hints = [
        suggestion(name, [*STRATEGIES, *configured], f"Configured: {', '.join(configured)}.")
        for name in missing
    ]
    return [
        f"There is no backend {name!r}. {hint} Add one with `anygpu backend add`."
        for name, hint in zip(missing, hints, strict=True)
    ]


def secret_warnings(names: Collection[str], stored: Collection[str] | None) -> list[str]:
    missing = [] if stored is None else sorted(set(names) - set(stored))
    return [
        f"There is no secret {name!r}. Store it with `anygpu secret set {name}` or the job will fail."
        for name in missing
    ]


def _secret_names(client: "Client") -> list[str] | None:
    """Return the names of the stored secrets; None if this user may not list them."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.secrets()["secrets"]]
    except AnygpuError:
        return None


def planned_backend_warnings(client: "Client", names: Collection[str]) -> list[str]:
    """Return a warning for each unknown backend in `anygpu plan`, which also accepts the catalog's clouds."""
    from anygpu.plan.catalog import terms

    configured = _backend_names(client) if names else []
    return backend_warnings(names, [*configured, *terms()]) if configured else []


def _backend_names(client: "Client") -> list[str]:
    """Return the names of the configured backends; an empty list if this user may not list them."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.backends.list()["backends"]]
    except AnygpuError:
        return []
