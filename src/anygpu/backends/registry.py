"""Kinds of backends, by name; each is imported when it is first used.

- `anygpu.backends.clouds.<kind>` (a trailing underscore is dropped): a provider of machines, with `Options` and
  `connect(options) -> Provider`, which `VmBackend` turns into a backend.
- `ssh`: boxes of one's own, with `Options` and `open_backend`.
- the entry points of group `anygpu.backends`: modules of other packages that have either.

    async def open_backend(name: str, options: Options, context: BackendContext) -> Backend: ...
    def ambient(options: Options) -> bool: ...  # whether it would use the server's own credentials; may be left out
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from anygpu.backends import clouds
from anygpu.backends import options as reading
from anygpu.backends.contract import Backend
from anygpu.errors import InvalidSpec, KindUnusable, Problem
from anygpu.suggest import did_you_mean

ENTRY_POINT_GROUP = "anygpu.backends"
_BUILT_IN = {"ssh": "anygpu.backends.ssh.backend"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendContext:
    """What the server gives every backend."""

    secret: bytes  # from which keys of attempts are computed
    agent_target: tuple[str, int]  # where the agent listener is, seen from here
    pins: Path  # this backend's directory for host keys seen before
    on_change: Callable[[str], None]  # called with the name of an attempt that should be looked at
    attended: bool = False  # this server is always on: it will end what it rents


class OpenBackend(Protocol):
    """Gives a backend that works; what it cannot do it says by itself later."""

    async def __call__(self, name: str, options: Any, context: BackendContext) -> Backend: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendKind:
    """A kind of backend: what it can be told, and how it is opened."""

    name: str
    options: type[BaseModel]
    open: OpenBackend
    ambient: Callable[[Any], bool]
    about: str


def find_kind(name: str, *, place: str = "kind", source: str = "body") -> BackendKind:
    """The kind of this name. InvalidSpec when there is none, KindUnusable when it cannot be imported."""
    load = _module_loaders().get(name)
    kind = _load_kind(name, load) if load is not None else None
    if kind is None:
        known = [each.name for each in usable_kinds()]
        near = did_you_mean(name, known) or f"there are: {', '.join(known)}"
        raise InvalidSpec([Problem(place, name[:100], "there is no such kind of backend", near, source)])
    return kind


def usable_kinds() -> Iterator[BackendKind]:
    """All kinds that can be used here, by name."""
    for name, load in sorted(_module_loaders().items()):
        try:
            kind = _load_kind(name, load)
        except KindUnusable:
            continue
        if kind is not None:
            yield kind


def _module_loaders() -> dict[str, Callable[[], Any]]:
    """How to get each kind's module. Our own names win over those of other packages."""
    from importlib.metadata import entry_points  # not needed by a server without profiles
    from pkgutil import iter_modules

    found: dict[str, Callable[[], Any]] = {
        each.name: each.load for each in entry_points(group=ENTRY_POINT_GROUP)
    }
    for module in iter_modules(clouds.__path__):
        found[module.name.rstrip("_")] = _import_later(f"{clouds.__name__}.{module.name}")
    return found | {name: _import_later(path) for name, path in _BUILT_IN.items()}


def _import_later(path: str) -> Callable[[], Any]:
    return lambda: import_module(path)


def _load_kind(name: str, load: Callable[[], Any]) -> BackendKind | None:
    """None for a module beside the kinds that is none itself."""
    try:
        module = load()
    except ImportError as error:
        raise KindUnusable(f"the kind {name!r} needs {error.name or error}", hint="Install it.") from error
    opens = getattr(module, "open_backend", None) or _open_vm_backend(getattr(module, "connect", None))
    options = getattr(module, "Options", None)
    if opens is None or options is None:
        return None
    about = " ".join((module.__doc__ or "").strip().partition("\n\n")[0].split())
    brief = about.partition(". ")[0].partition(" (")[0].rstrip(".")
    ambient = getattr(module, "ambient", lambda chosen: not reading.configured_credentials(chosen))
    return BackendKind(name=name, options=options, open=opens, ambient=ambient, about=brief)


def _open_vm_backend(connect: Any) -> OpenBackend | None:
    if connect is None:
        return None

    async def opened(name: str, options: Any, context: BackendContext) -> Backend:
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

    return opened
