"""Settings from a TOML file, environment variables and defaults, with the origin of every value.

The CLI loads the settings before anything else, so this module uses only the standard library.
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
    """A setting is not valid. Correct the file or the environment variable that the message names."""

    code = "invalid_settings"


def setting(default: T, about: str, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """Return a dataclass field with a default value, a description (`about`) and bounds."""
    return field(default=default, metadata={"about": about, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the server's addresses, its access rules and its log."""

    host: str = setting("127.0.0.1", "address the API listens on")
    port: int = setting(7791, "port of the API; 0 uses a free port", minimum=0, maximum=65535)
    agent_host: str = setting("127.0.0.1", "address the agent listener listens on")
    agent_port: int = setting(
        0,
        "port of the agent listener; 0 uses a free port, the same after a restart",
        minimum=0,
        maximum=65535,
    )
    agent_url: str = setting("", "URL that agents use; empty: the address of the agent listener")
    agent_shared_url: str = setting(
        "",
        "URL that leads agents to any of the servers, such as that of a proxy or a Kubernetes Service; agents use it "
        "beside the servers' own addresses",
    )
    signing_key: str = setting(
        "", "file with the key that signs URLs and attempt tokens; empty: in the state directory"
    )
    public_url: str = setting("", "public URL of the API when it is behind a proxy")
    allowed_hosts: tuple[str, ...] = setting((), "additional host names accepted in the Host header")
    allowed_origins: tuple[str, ...] = setting(
        (), "additional web origins whose pages may send requests that change data"
    )
    shutdown_grace_s: float = setting(
        5.0, "seconds that running requests have to finish when the server stops", minimum=0
    )
    control: bool = setting(
        True, "run the control loop in this process; false for additional API servers on the same database"
    )
    log_level: str = setting("info", "debug, info, warning or error")
    log_format: str = setting("auto", "json, text, or auto: text on a terminal, otherwise JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of the database, the blob store and retention."""

    database: str = setting("", "database URL; empty: SQLite in the state directory")
    blobs: str = setting("", "object storage URL; empty: files in the state directory")
    blob_options: tuple[str, ...] = setting(
        (), "options of the object storage, such as endpoint=… or client.allow_http=true"
    )
    signed_url_s: float = setting(3600.0, "seconds a signed URL is valid", minimum=1)
    log_quota_bytes: int = setting(
        256 * MIB, "log bytes stored per job; beyond that, the middle of the log is dropped", minimum=65536
    )
    retention_days: float = setting(
        90.0, "days that logs, metrics and files of ended jobs are kept; 0 keeps them forever", minimum=0
    )
    gc_every_s: float = setting(
        86400.0, "seconds between removals of expired data; 0: only with `anygpu gc`", minimum=0
    )
    trash_days: float = setting(
        7.0, "days that removed files stay in the trash before they are deleted", minimum=0
    )
    gc_max_share: float = setting(
        0.5, "share of the stored files above which `anygpu gc` asks for --force", minimum=0, maximum=1
    )
    gc_share_from: int = setting(
        100, "number of stored files from which store.gc_max_share applies", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Intervals and time limits that agents receive when they claim an attempt."""

    lease_s: float = setting(
        60.0, "seconds without contact with the server after which an agent stops its job", minimum=1
    )
    heartbeat_s: float = setting(5.0, "seconds between heartbeats of an agent", minimum=0.1)
    report_every_s: float = setting(0.2, "seconds between reports of an agent", minimum=0.01)
    telemetry_every_s: float = setting(
        10.0, "seconds between measurements of CPU, memory and GPU", minimum=0.1
    )
    cancel_grace_s: float = setting(
        10.0, "seconds between SIGTERM and SIGKILL when a job is stopped", minimum=0
    )
    results_bytes: int = setting(
        10240 * MIB,
        "maximum bytes of new files in a copied working directory that are kept as results",
        minimum=0,
    )
    results_files: int = setting(1000, "maximum number of new files that are kept as results", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """Intervals and limits of the control loop."""

    safety_net_s: float = setting(
        10.0, "seconds between checks of jobs on this machine when no event triggers one", minimum=0.1
    )
    sweep_every_s: float = setting(60.0, "seconds between searches for machines that no job owns", minimum=1)
    damaged_grace_s: float = setting(
        3600.0, "seconds after which the machines of a job with damaged events are ended", minimum=1
    )
    paid_timeout_s: float = setting(
        25_200.0, "time limit in seconds on paid machines, for jobs that set no time limit", minimum=60
    )
    paid_attempts: int = setting(3, "paid attempts that one organisation may run at the same time", minimum=0)
    allow_paid: bool = setting(
        False, "whether jobs may use paid machines although neither their spec nor an option asks for it"
    )
    claim_limit_s: float = setting(
        600.0,
        "seconds a new machine has until its agent connects, after its time in a queue and after the "
        "`start_limit_s` of its backend",
        minimum=1,
    )
    spot_tick_s: float = setting(
        600.0, "seconds between choices of spot or on demand for jobs with a deadline", minimum=1
    )
    move: str = setting(
        "advise", "migration of running jobs to better offers: never, advise (only say so) or act (migrate)"
    )
    useful_s: float = setting(
        60.0, "launch a job only if its remaining budget pays for this many seconds of training", minimum=0
    )
    stop_allowance_s: float = setting(
        120.0, "seconds of machine time that the budget reserves for saving and stopping", minimum=0
    )
    end_allowance_s: float = setting(
        20.0, "seconds of machine time that the budget reserves for ending the machine", minimum=0
    )
    leader_ttl_s: float = setting(
        15.0,
        "seconds a server process remains leader, and in the list of servers, without renewing its lease",
        minimum=1,
    )
    poll_events_s: float = setting(
        1.0, "seconds between checks for events of other server processes", minimum=0.05
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of the queue: how projects share the organisation's own machines."""

    quotas: tuple[str, ...] = setting(
        (), "slots (GPUs or CPUs) reserved for projects, such as vision=4 or lab/speech=2"
    )
    may_borrow: bool = setting(
        True, "whether a project with a quota may also use idle slots of other projects"
    )
    preempt: bool = setting(
        True, "whether a job with checkpoints may be stopped for a job that is ahead of it in the queue"
    )
    short_gpu_hours: float = setting(1.0, "jobs that have used fewer GPU hours than this go first", minimum=0)
    long_gpu_hours: float = setting(32.0, "jobs that have used more GPU hours than this go last", minimum=0)
    runs_at_least_s: float = setting(
        600.0, "seconds a started job runs before it can be preempted", minimum=0
    )
    starved_s: float = setting(
        86400.0, "jobs that have waited this many seconds go before all others", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings for jobs on the server's own machine."""

    enabled: bool = setting(True, "whether jobs may run on this machine")
    organisations: tuple[str, ...] = setting(
        (),
        "other organisations whose jobs may run on this machine, where they can read the server's keys; *: all",
    )
    cpus: int = setting(0, "CPUs offered to jobs, one per job unless it requests more; 0: all", minimum=0)
    attempts: str = setting(
        "", "directory of attempts; servers on one host can share it and take over each other's attempts"
    )
    relay: str = setting(
        "", "how agents on this machine reach the server: directory or storage (a relay); empty: directly"
    )
    gpu_locks: str = setting("", "directory of GPU locks, shared by all servers on this host; empty: in /tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Settings of the relay, through which agents without a route to the server send their messages."""

    directory: str = setting(
        "", "directory for messages, shared by the server and the machines of the agents; empty: none"
    )
    agent_directory: str = setting(
        "", "path of relay.directory on the machines of the agents; empty: the same path"
    )
    poll_s: float = setting(
        1.0, "seconds between two searches for new messages of agents", minimum=0.05, maximum=20
    )
    url_life_s: float = setting(
        518_400.0,
        "seconds that signed URLs for messages in a bucket are valid; they are renewed while a job runs",
        minimum=60,
        maximum=604_800,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Limits of the API: rates, sizes, and numbers of streams and jobs."""

    requests_per_s: float = setting(200.0, "requests per second and token; 0 is unlimited", minimum=0)
    requests_burst: int = setting(
        1000, "requests that a token may send at once before the rate limit applies", minimum=1
    )
    failed_logins_per_min: float = setting(
        30.0, "requests with an invalid token per minute and client address; 0 is unlimited", minimum=0
    )
    spec_bytes: int = setting(MIB, "maximum bytes of a job spec or other JSON body", minimum=1024)
    report_bytes: int = setting(2 * MIB, "maximum bytes of an agent's report", minimum=MIB)
    upload_bytes: int = setting(2048 * MIB, "maximum bytes of a working-directory archive", minimum=1024)
    snapshot_bytes: int = setting(
        1024 * MIB, "maximum bytes of all files in a snapshot of a working directory", minimum=1024
    )
    snapshot_files: int = setting(
        100_000, "maximum number of files in a snapshot of a working directory", minimum=1
    )
    blob_bytes: int = setting(256 * MIB, "maximum bytes of a chunk of a checkpoint or artifact", minimum=1024)
    followers: int = setting(1000, "maximum number of event streams open at the same time", minimum=1)
    connections: int = setting(
        4096,
        "maximum number of connections of each listener; fewer if the system's limit of open files is low",
        minimum=8,
    )
    header_bytes: int = setting(65_536, "maximum bytes of the path and headers of a request", minimum=4096)
    header_count: int = setting(100, "maximum number of headers of a request", minimum=20)
    header_s: float = setting(15.0, "seconds a client has to send the headers of a request", minimum=1)
    silence_s: float = setting(
        60.0,
        "seconds after which the server disconnects a client that pauses in a body or stops reading",
        minimum=1,
    )
    page_jobs: int = setting(200, "maximum number of jobs in one page of a list", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """Settings of the price catalog: your discounts, credits and own prices."""

    discounts: tuple[str, ...] = setting(
        (), "discounts on the list price, such as aws=10% or ec2/p5.48xlarge=25%"
    )
    credits: tuple[str, ...] = setting((), "remaining credit at a provider in dollars, such as gcp=300")
    own_prices: tuple[str, ...] = setting(
        (), "dollars per hour of your own machines by backend, such as local=0.20 or lab=0.50"
    )
    stale_days: int = setting(90, "prices older than this many days are marked as stale", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. `origins` maps each key to the source of its value: a file, a variable, …"""

    state: Path
    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    agent: AgentSettings = AgentSettings()
    control: ControlSettings = ControlSettings()
    queue: QueueSettings = QueueSettings()
    local: LocalSettings = LocalSettings()
    limits: LimitSettings = LimitSettings()
    relay: RelaySettings = RelaySettings()
    catalog: CatalogSettings = CatalogSettings()
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by name, not validated
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def database_url(self) -> str:
        return self.store.database or f"sqlite:///{self.state / 'anygpu.db'}"

    @property
    def blobs_url(self) -> str:
        return self.store.blobs or (self.state / "blobs").absolute().as_uri()

    @property
    def embedded(self) -> bool:
        """Whether the database is an SQLite file, which only one server process may use."""
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
    "relay": RelaySettings,
    "catalog": CatalogSettings,
}


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Load the settings from the file, the environment and the command line (`overrides`).

    The file overrides the defaults, the environment overrides the file, and `overrides` override both.
    """
    values: dict[str, tuple[Any, str]] = {"state": (default_state(environ), DEFAULT)}
    file = path or config_path(environ)
    for layer in (_read_file(file, required=path is not None), _read_environment(environ)):
        values.update(layer)
    for key, value in (overrides or {}).items():
        values[key] = (_validate(key, value, "command line"), "command line")
    return _assemble(values)


def setting_rows(settings: Settings) -> Iterator[SettingRow]:
    """Yield all settings with their values and origins."""
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
    """Yield one row per backend in the settings.

    The options of the backend are not shown, because only its kind knows which of them are credentials.
    """
    for name, table in settings.backends.items():
        key = f"backends.{name}"
        yield SettingRow(key, table["kind"], settings.origins[f"{key}.kind"], "", "a configured backend")


def environment_name(key: str) -> str:
    """Return the environment variable of a setting, such as ANYGPU_SERVER__PORT for `server.port`."""
    return "ANYGPU_" + key.replace(".", "__").upper()


def _read_file(path: Path, *, required: bool) -> dict[str, tuple[Any, str]]:
    document = _parse_file(path, required=required)
    found: dict[str, tuple[Any, str]] = {}
    for key, value in _entries(document):
        found[key] = (_validate(key, value, str(path)), str(path))
    return found


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a TOML document, flattened.

    `[server] port` becomes `server.port`, and `[backends.lab] kind` becomes `backends.lab.kind`.
    """
    for name, value in document.items():
        if not isinstance(value, dict):
            yield name, value
            continue
        for key, each in value.items():
            if name == "backends" and isinstance(each, dict):
                yield from ((f"{name}.{key}.{option}", content) for option, content in each.items())
            else:
                yield f"{name}.{key}", each


def _parse_file(path: Path, *, required: bool) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise InvalidSettings(
                f"The settings file {path} does not exist.", hint="Create the file, or correct the path."
            ) from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidSettings(
            f"The settings file {path} cannot be read or is not valid TOML: {error}. Correct the file or its "
            "permissions."
        ) from error


def _read_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for variable, text in environ.items():
        # Only names with a section are settings; ANYGPU_JOB_ID and others are not.
        if variable == "ANYGPU_STATE" or (variable.startswith("ANYGPU_") and "__" in variable):
            key = variable.removeprefix("ANYGPU_").lower().replace("__", ".")
            found[key] = (_validate(key, text, variable), variable)
    return found


def _validate(key: str, value: Any, source: str) -> Any:
    """Return the value converted to the type of its setting.

    Raise InvalidSettings if the value has another type or is out of bounds.
    """
    if key == "state":
        return _parse_state(value, source)
    if key.startswith("backends.") and key.count(".") >= 2:
        return value  # the backend kind validates it
    each = _find_field(key, source)
    try:
        converted = _convert(value, each.default)
    except (TypeError, ValueError):
        raise InvalidSettings(
            f"{source}: the setting {key} = {value!r} is not valid. Set it to {_type_name(each.default)}."
        ) from None
    _require_bounds(key, converted, each, source)
    return converted


def _parse_state(value: Any, source: str) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise InvalidSettings(
            f"{source}: the setting state = {value!r} is not valid. Set it to the path of a directory."
        )
    return Path(value).expanduser().absolute()


def _find_field(key: str, source: str) -> "Field[Any]":
    section, _, name = key.partition(".")
    for each in fields(SECTIONS[section]) if section in SECTIONS else ():
        if each.name == name:
            return each
    raise InvalidSettings(f"{source}: there is no setting with the name {key!r}.", hint=_suggestion(key))


def _suggestion(key: str) -> str:
    names = ["state"] + [f"{name}.{each.name}" for name, kind in SECTIONS.items() for each in fields(kind)]
    return suggestion(key, names, "`anygpu config show` lists all settings.")


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
        return "a list of strings (in an environment variable: separated by commas)"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names[type(default)]


def _require_bounds(key: str, value: Any, each: "Field[Any]", source: str) -> None:
    minimum, maximum = each.metadata["minimum"], each.metadata["maximum"]
    if minimum is not None and not value >= minimum:
        raise InvalidSettings(
            f"{source}: the setting {key} = {value!r} is too small. Set it to at least {minimum}."
        )
    if maximum is not None and not value <= maximum:
        raise InvalidSettings(
            f"{source}: the setting {key} = {value!r} is too large. Set it to at most {maximum}."
        )


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
            hint = 'Add a line such as `kind = "ssh"`. `anygpu backend kinds` lists the kinds.'
            raise InvalidSettings(f"{source}: the backend backends.{name} has no option `kind`.", hint=hint)
    return tables
