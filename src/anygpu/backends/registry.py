"""Find the kinds of backends by name. The module of a kind is imported when it is first used.

Kinds come from three places:

- `anygpu.backends.clouds.<kind>` (a trailing underscore is dropped): a VM provider. The module has `Options`
  and `connect(options) -> Provider`, which `VmBackend` turns into a backend.
- `ssh` (the user's own machines), `celery`, `ray` and `slurm` (engines): the module has `Options` and `open_backend`.
- entry points of the group `anygpu.backends`: modules of other packages, of either form.

    async def open_backend(name: str, options: Options, context: BackendContext) -> Backend: ...
    def ambient(options: Options) -> bool: ...  # optional: whether it uses the server's own credentials
    NEEDED_MODULES, EXTRA = ("boto3",), "aws"  # optional: modules that may be missing, and what installs them
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from anygpu.backends import clouds
from anygpu.backends.contract import Backend
from anygpu.backends.options import configured_credentials
from anygpu.backends.relay.contract import NO_RELAYS, Relays
from anygpu.errors import InvalidSpec, KindUnusable, Problem
from anygpu.installation import install_hint
from anygpu.suggest import did_you_mean

ENTRY_POINT_GROUP = "anygpu.backends"
_BUILT_IN = {
    "celery": "anygpu.backends.celery.backend",
    "kubernetes": "anygpu.backends.kubernetes.backend",
    "ray": "anygpu.backends.ray.backend",
    "slurm": "anygpu.backends.slurm.backend",
    "ssh": "anygpu.backends.ssh.backend",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendContext:
    """What the server gives to every backend: a secret for deriving keys, its addresses, and callbacks."""

    secret: bytes  # the SSH keys of attempts are derived from it
    agent_target: tuple[str, int]  # host and port of the agent listener, as this process reaches it
    pins: Path  # directory for the pinned host keys of this backend
    on_change: Callable[[str], None]  # called with the name of an attempt that has changed
    relays: Relays = NO_RELAYS  # for agents that have no route to the server
    attended: bool = False  # the server is always on, so it ends every machine it rents


class OpenBackend(Protocol):
    """The type of a function that opens a backend.

    A problem that the user can solve later, such as wrong credentials, must not raise an error here. The methods of the
    backend raise it.
    """

    async def __call__(self, name: str, options: Any, context: BackendContext) -> Backend: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFactory:
    """A kind of backend: its options, and the function that opens a backend of this kind."""

    name: str
    options: type[BaseModel]
    open: OpenBackend
    ambient: Callable[[Any], bool]
    about: str
    modules: tuple[str, ...] = ()  # what it needs beyond anygpu's own dependencies
    extra: str = ""  # the extra of anygpu that installs them


def find_kind(name: str, *, place: str = "kind", source: str = "body") -> BackendFactory:
    """Return the kind of backend with this name.

    Raise InvalidSpec if there is no such kind, and KindUnusable if its module cannot be imported.
    """
    load = _module_loaders().get(name)
    kind = _load_kind(name, load) if load is not None else None
    if kind is None:
        names = [kind.name for kind in usable_kinds()]
        near = did_you_mean(name, names) or f"there are: {', '.join(names)}"
        raise InvalidSpec([Problem(place, name[:100], "is not a kind of backend", near, source)])
    return kind


def require_modules(kind: BackendFactory) -> None:
    """Raise KindUnusable with the command that installs what is missing, if a module of the kind is missing."""
    importlib.invalidate_caches()  # it may have been installed since the server started
    missing = ", ".join(module for module in kind.modules if importlib.util.find_spec(module) is None)
    if missing:
        hint = install_hint(kind.extra) if kind.extra else f"Install {missing} where the server runs."
        raise KindUnusable(
            f"The backend kind {kind.name!r} needs {missing}, which is not installed on the server", hint=hint
        )


def kind_names() -> frozenset[str]:
    """Return the names of all kinds of backends, also of those whose packages are not installed."""
    return frozenset(_module_loaders())


def usable_kinds() -> Iterator[BackendFactory]:
    """Yield every kind of backend that can be imported, sorted by name."""
    for name, load in sorted(_module_loaders().items()):
        try:
            kind = _load_kind(name, load)
        except KindUnusable:
            continue
        if kind is not None:
            yield kind


def _module_loaders() -> dict[str, Callable[[], Any]]:
    """Return {kind: function that imports its module} for all kinds.

    If a built-in kind and a plug-in have the same name, the built-in kind is used.
    """
    from importlib.metadata import entry_points  # not needed by a server without profiles
    from pkgutil import iter_modules

    loaders: dict[str, Callable[[], Any]] = {
        each.name: each.load for each in entry_points(group=ENTRY_POINT_GROUP)
    }
    for module in iter_modules(clouds.__path__):
        loaders[module.name.rstrip("_")] = _import_later(f"{clouds.__name__}.{module.name}")
    return loaders | {name: _import_later(path) for name, path in _BUILT_IN.items()}


def _import_later(path: str) -> Callable[[], Any]:
    return lambda: import_module(path)


def _load_kind(name: str, load: Callable[[], Any]) -> BackendFactory | None:
    """Import the module of a kind and build its factory; None if the module does not define a kind."""
    try:
        module = load()
    except ImportError as error:
        missing = error.name or error
        raise KindUnusable(
            f"The backend kind {name!r} needs the Python package {missing}, which is not installed on the "
            "server",
            hint=f"Install {missing} where the server runs, and restart the server.",
        ) from error
    opens = getattr(module, "open_backend", None) or _open_vm_backend(getattr(module, "connect", None))
    options = getattr(module, "Options", None)
    if opens is None or options is None:
        return None
    about = " ".join((module.__doc__ or "").strip().partition("\n\n")[0].split())
    brief = about.partition(". ")[0].partition(" (")[0].rstrip(".")
    ambient = getattr(module, "ambient", lambda chosen: not configured_credentials(chosen))
    return BackendFactory(
        name=name,
        options=options,
        open=opens,
        ambient=ambient,
        about=brief,
        modules=getattr(module, "NEEDED_MODULES", ()),
        extra=getattr(module, "EXTRA", ""),
    )


def _open_vm_backend(connect: Any) -> OpenBackend | None:
    if connect is None:
        return None

    async def open_backend(name: str, options: Any, context: BackendContext) -> Backend:
        from anygpu.backends.ssh.keys import HostKeyStore
        from anygpu.backends.vm.backend import VmBackend

        provider = await connect(options)
        return VmBackend(
            name,
            provider,
            options,
            secret=context.secret,
            agent_target=context.agent_target,
            pins=HostKeyStore(context.pins),
            on_change=context.on_change,
            attended=context.attended,
        )

    return open_backend
