"""Settings: one TOML file, environment overrides, defaults; every value knows where it came from.

The command line reads this before anything else, so it needs the standard library only.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from anygpu.errors import AnygpuError
from anygpu.paths import config_path as config_path
from anygpu.paths import default_state as default_state
from anygpu.suggest import suggestion

MIB = 1024 * 1024
DEFAULT = "default"
T = TypeVar("T")


class InvalidSettings(AnygpuError):
    """A setting is not valid. Correct the file or the environment variable named."""

    code = "invalid_settings"


def setting(default: T, about: str, *, least: float | None = None, most: float | None = None) -> T:
    """A field with its documentation and its bounds."""
    return field(default=default, metadata={"about": about, "least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the server listens, and for whom."""

    host: str = setting("127.0.0.1", "address the API listens on")
    port: int = setting(7791, "port of the API; 0 takes a free one", least=0, most=65535)
    agent_host: str = setting("127.0.0.1", "address the agent listener listens on")
    agent_port: int = setting(
        0, "port of the agent listener; 0: a free one, the same after a restart", least=0, most=65535
    )
    agent_url: str = setting("", "address agents are told to use; empty: the agent listener itself")
    signing_key: str = setting(
        "", "file of the key that signs links and attempts; empty: in the state directory"
    )
    public_url: str = setting("", "address people reach the API at, when a proxy stands in front")
    allowed_hosts: tuple[str, ...] = setting((), "further host names accepted in the Host header")
    allowed_origins: tuple[str, ...] = setting((), "further web origins that may change state")
    shutdown_grace_s: float = setting(5.0, "how long requests may finish when the server stops", least=0)
    control: bool = setting(
        True, "run the control loop in this process (several API servers share one database)"
    )
    log_level: str = setting("info", "debug, info, warning or error")
    log_format: str = setting("auto", "json, text, or auto: text on a terminal, JSON elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where facts and bytes live, and for how long."""

    database: str = setting("", "database URL; empty: SQLite in the state directory")
    blobs: str = setting("", "object storage URL; empty: files in the state directory")
    blob_options: tuple[str, ...] = setting(
        (), "options of the object storage: endpoint=…, client.allow_http=true"
    )
    signed_url_s: float = setting(3600.0, "how long a signed URL is valid", least=1)
    log_quota_bytes: int = setting(
        256 * MIB, "log bytes kept per job; the middle is dropped beyond", least=65536
    )
    retention_days: float = setting(
        90.0, "days ended jobs keep logs, metrics and files; 0 keeps for ever", least=0
    )
    gc_every_s: float = setting(86400.0, "how often retention is applied; 0 only on `anygpu gc`", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What agents are told when they claim an attempt."""

    lease_s: float = setting(60.0, "an agent that cannot renew for this long stops its job", least=1)
    heartbeat_s: float = setting(5.0, "how often an agent shows that it lives", least=0.1)
    report_every_s: float = setting(0.2, "how often an agent sends what it has", least=0.01)
    telemetry_every_s: float = setting(10.0, "how often CPU, memory and GPU are measured", least=0.1)
    cancel_grace_s: float = setting(10.0, "seconds between SIGTERM and SIGKILL", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """How the control loop watches and tries again."""

    safety_net_s: float = setting(
        10.0, "how often jobs on this machine are looked at without being woken", least=0.1
    )
    sweep_every_s: float = setting(60.0, "how often what nobody owns is looked for", least=1)
    paid_timeout_s: float = setting(
        25_200.0, "time limit of jobs that name none, on machines that cost", least=60
    )
    paid_attempts: int = setting(3, "attempts of one organisation on paid machines at a time", least=0)
    claim_limit_s: float = setting(600.0, "how long a machine may take until its agent speaks", least=1)
    spot_tick_s: float = setting(600.0, "how often a job with a deadline asks how spot is doing", least=1)
    move: str = setting("advise", "a running job for which another place is better: never, advise or act")
    useful_s: float = setting(60.0, "least training a launch must be able to pay for", least=0)
    stop_allowance_s: float = setting(120.0, "kept of a budget for saving and stopping", least=0)
    end_allowance_s: float = setting(20.0, "kept of a budget for ending the machine, saved or not", least=0)
    leader_ttl_s: float = setting(15.0, "how long a control process leads without renewing", least=1)
    poll_events_s: float = setting(
        1.0, "how often events of other server processes are looked for", least=0.05
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How projects share machines that cost nothing."""

    quotas: tuple[str, ...] = setting((), "slots that are always a project's: vision=4, lab/speech=2")
    may_borrow: bool = setting(True, "whether a project with a quota may use what others leave idle")
    preempt: bool = setting(True, "whether a job that checkpoints may be stopped for one that goes before it")
    short_gpu_hours: float = setting(1.0, "jobs that have used less go first", least=0)
    long_gpu_hours: float = setting(32.0, "jobs that have used more go last", least=0)
    runs_at_least_s: float = setting(600.0, "how long a job that was started is left alone", least=0)
    starved_s: float = setting(86400.0, "who has waited this long goes before everybody", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """This machine as a place to run."""

    enabled: bool = setting(True, "whether jobs may run on this machine")
    cpus: int = setting(0, "processors offered to jobs, one each unless they ask for more; 0: all", least=0)
    attempts: str = setting(
        "", "directory of attempts; servers of one host that share it stand in for each other"
    )
    gpu_locks: str = setting("", "directory of GPU locks shared by all servers here; empty: in /tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """How much one caller may ask for."""

    requests_per_s: float = setting(200.0, "requests a second per token; 0 is unlimited", least=0)
    requests_burst: int = setting(1000, "requests a token may make at once", least=1)
    failed_logins_per_min: float = setting(
        30.0, "wrong tokens a minute from one address; 0 is unlimited", least=0
    )
    spec_bytes: int = setting(MIB, "largest job description or other JSON body", least=1024)
    report_bytes: int = setting(2 * MIB, "largest report of an agent", least=MIB)
    upload_bytes: int = setting(2048 * MIB, "largest working-directory archive", least=1024)
    blob_bytes: int = setting(256 * MIB, "largest chunk of a checkpoint or artifact", least=1024)
    followers: int = setting(1000, "open streams at once", least=1)
    page_jobs: int = setting(200, "most jobs in a page", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """What the organisation pays for machines, where that is not the list price."""

    discounts: tuple[str, ...] = setting((), "off the list price: aws=10%, ec2/p5.48xlarge=25%")
    credits: tuple[str, ...] = setting((), "dollars left to spend at a provider: gcp=300")
    own_prices: tuple[str, ...] = setting(
        (), "an hour of a backend on machines you own: local=0.20, lab=0.50"
    )
    stale_days: int = setting(90, "prices read longer ago than this are marked", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be configured. `origins` maps a setting to the place its value came from."""

    state: Path
    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    agent: AgentSettings = AgentSettings()
    control: ControlSettings = ControlSettings()
    queue: QueueSettings = QueueSettings()
    local: LocalSettings = LocalSettings()
    limits: LimitSettings = LimitSettings()
    catalog: CatalogSettings = CatalogSettings()
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by name, as they were written
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def database_url(self) -> str:
        return self.store.database or f"sqlite:///{self.state / 'anygpu.db'}"

    @property
    def blobs_url(self) -> str:
        return self.store.blobs or (self.state / "blobs").absolute().as_uri()

    @property
    def embedded(self) -> bool:
        """One process owns the state: the database is a file."""
        return self.database_url.startswith("sqlite")


class SettingRow(NamedTuple):
    """One setting, as `anygpu config show` prints it."""

    key: str
    value: Any
    origin: str
    default: Any
    about: str


SECTIONS: dict[str, type[Any]] = {
    "server": ServerSettings,
    "store": StoreSettings,
    "agent": AgentSettings,
    "control": ControlSettings,
    "queue": QueueSettings,
    "local": LocalSettings,
    "limits": LimitSettings,
    "catalog": CatalogSettings,
}


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Defaults, then the file, then the environment, then `overrides` (the command line): the last wins."""
    found: dict[str, tuple[Any, str]] = {"state": (default_state(environ), DEFAULT)}
    file = path or config_path(environ)
    for layer in (_read_file(file, required=path is not None), _read_environment(environ)):
        found.update(layer)
    for key, value in (overrides or {}).items():
        found[key] = (_validate(key, value, "command line"), "command line")
    return _assemble(found)


def setting_rows(settings: Settings) -> Iterator[SettingRow]:
    """Every setting with its value and origin."""
    origin = settings.origins.get
    about = "directory of the database, files, token and lock"
    yield SettingRow("state", str(settings.state), origin("state", DEFAULT), str(default_state({})), about)
    for section, kind in SECTIONS.items():
        values = getattr(settings, section)
        for each in fields(kind):
            key = f"{section}.{each.name}"
            value = getattr(values, each.name)
            yield SettingRow(key, value, origin(key, DEFAULT), each.default, each.metadata["about"])
    yield from _backend_rows(settings)


def _backend_rows(settings: Settings) -> Iterator[SettingRow]:
    """Only that it is there: which of its options are credentials, its kind alone knows."""
    for name, table in settings.backends.items():
        key = f"backends.{name}"
        yield SettingRow(key, table["kind"], settings.origins[f"{key}.kind"], "", "a configured backend")


def environment_name(key: str) -> str:
    """`server.port` is ANYGPU_SERVER__PORT."""
    return "ANYGPU_" + key.replace(".", "__").upper()


def _read_file(path: Path, *, required: bool) -> dict[str, tuple[Any, str]]:
    document = _parse_file(path, required=required)
    found: dict[str, tuple[Any, str]] = {}
    for key, value in _entries(document):
        found[key] = (_validate(key, value, str(path)), str(path))
    return found


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """`[server] port = 1` is `server.port`; `[backends.lab] kind = "ssh"` is `backends.lab.kind`."""
    for name, value in document.items():
        if not isinstance(value, dict):
            yield name, value
            continue
        for key, each in value.items():
            if name == "backends" and isinstance(each, dict):
                yield from ((f"{name}.{key}.{option}", said) for option, said in each.items())
            else:
                yield f"{name}.{key}", each


def _parse_file(path: Path, *, required: bool) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise InvalidSettings(
                f"there is no settings file {path}", hint="Create it, or leave it out."
            ) from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidSettings(f"{path}: {error}") from error


def _read_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for variable, text in environ.items():
        # ANYGPU_JOB_ID and the like are not settings: only a section makes a name ours.
        if variable == "ANYGPU_STATE" or (variable.startswith("ANYGPU_") and "__" in variable):
            key = variable.removeprefix("ANYGPU_").lower().replace("__", ".")
            found[key] = (_validate(key, text, variable), variable)
    return found


def _validate(key: str, value: Any, source: str) -> Any:
    """The value in its setting's type, within its bounds."""
    if key == "state":
        return _parse_state(value, source)
    if key.startswith("backends.") and key.count(".") >= 2:
        return value  # what is right here, its kind knows
    each = _find_field(key, source)
    try:
        converted = _convert(value, each.default)
    except (TypeError, ValueError):
        wanted = _type_name(each.default)
        raise InvalidSettings(f"{source}: {key} = {value!r} is not {wanted}") from None
    _require_bounds(key, converted, each, source)
    return converted


def _parse_state(value: Any, source: str) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise InvalidSettings(f"{source}: state = {value!r} is not a directory")
    return Path(value).expanduser().absolute()


def _find_field(key: str, source: str) -> "Field[Any]":
    section, _, name = key.partition(".")
    for each in fields(SECTIONS[section]) if section in SECTIONS else ():
        if each.name == name:
            return each
    raise InvalidSettings(f"{source}: there is no setting {key!r}", hint=_suggestion(key))


def _suggestion(key: str) -> str:
    names = ["state"] + [f"{name}.{each.name}" for name, kind in SECTIONS.items() for each in fields(kind)]
    return suggestion(key, names, "`anygpu config show` lists every setting.")


def _convert(value: Any, default: Any) -> Any:
    if isinstance(default, bool):
        return _as_bool(value)
    if isinstance(default, tuple):
        return _as_strings(value)
    if isinstance(value, bool) or (isinstance(default, str) and not isinstance(value, str)):
        raise TypeError(value)
    if isinstance(default, int) and isinstance(value, float):
        raise TypeError(value)
    return type(default)(value)


def _as_bool(value: Any) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise TypeError(value)


def _as_strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise TypeError(value)


def _type_name(default: Any) -> str:
    if isinstance(default, tuple):
        return "a list of texts"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return names[type(default)]


def _require_bounds(key: str, value: Any, each: "Field[Any]", source: str) -> None:
    least, most = each.metadata["least"], each.metadata["most"]
    if least is not None and not value >= least:
        raise InvalidSettings(f"{source}: {key} = {value!r} is below {least}")
    if most is not None and not value <= most:
        raise InvalidSettings(f"{source}: {key} = {value!r} is above {most}")


def _assemble(found: Mapping[str, tuple[Any, str]]) -> Settings:
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, (value, _) in found.items():
        section, _, name = key.partition(".")
        if section in SECTIONS:
            sections[section][name] = value
    made = {name: SECTIONS[name](**values) for name, values in sections.items()}
    origins = {key: origin for key, (_, origin) in found.items()}
    return Settings(state=found["state"][0], backends=_backends(found), origins=origins, **made)


def _backends(found: Mapping[str, tuple[Any, str]]) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for key, (value, _) in found.items():
        if key.startswith("backends."):
            name, _, option = key.removeprefix("backends.").rpartition(".")
            tables.setdefault(name, {})[option] = value
    for name, table in tables.items():
        if not isinstance(table.get("kind"), str):
            source = next(found[key][1] for key in found if key.startswith(f"backends.{name}."))
            hint = "Name it: `anygpu backend kinds` lists them."
            raise InvalidSettings(f"{source}: backends.{name} has no kind", hint=hint)
    return tables
