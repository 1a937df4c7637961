"""What servers and workers write into the broker: the message that starts an attempt, and a worker's report.

Both are JSON and are validated by the reader, because others may be able to write into the broker.
"""

import math
import re
import sys
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from anygpu.backends.batch.command import ticket_content
from anygpu.backends.contract import LaunchRequest
from anygpu.backends.ssh.offers import cpu_slot_count

DEFAULT_QUEUE = "gpu-training"
START_TASK = "anygpu.start_attempt"
REPORT_EVERY_S = 30.0
REPORT_EXPIRY_S = 90.0  # a worker that has missed three reports is lost
END_ORDER_EXPIRY_S = 86_400
ENDED_COUNT = 20
MAX_ATTEMPTS = 100
MAX_TIME_MS = 2**53

QueueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
WorkerName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}@[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$")
]
AttemptName = Annotated[str, StringConstraints(pattern=r"^anygpu-[0-9a-f]{32}-[0-9]{1,9}$")]
OwnerId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Text = Annotated[str, StringConstraints(max_length=2_000)]
ShortText = Annotated[str, StringConstraints(max_length=200)]
TimeMs = Annotated[int, Field(ge=0, le=MAX_TIME_MS)]
WORKER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}@[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")


class StartMessage(BaseModel):
    """The order to start the agent of an attempt. It is the only argument of the Celery task.

    Fields that a newer server adds are ignored; `ticket` is written to the agent's `ticket.json` as it is.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    protocol: Literal[1] = 1
    name: AttemptName
    owner: OwnerId  # the server that started the attempt, so that servers can share workers
    ticket: dict[str, Any]
    gpus: int = Field(0, ge=0, le=1024)
    cpus: int = Field(0, ge=0, le=4096)  # to reserve on the machine, which other workers use too

    @field_validator("ticket")
    @classmethod
    def _check_addresses(cls, ticket: dict[str, Any]) -> dict[str, Any]:
        urls = ticket.get("urls") or []
        if not isinstance(urls, list) or not all(
            isinstance(url, str) for url in [*urls, ticket.get("url") or ""]
        ):
            raise ValueError("`url` or `urls` is not the address of a server")
        return ticket

    @property
    def server_urls(self) -> list[str]:
        """The addresses of the servers that the ticket names."""
        urls = [self.ticket.get("url"), *(self.ticket.get("urls") or ())]
        return list(dict.fromkeys(url for url in urls if url))


class ReportedGpu(BaseModel):
    """A GPU of a worker. `free` tells whether no attempt has locked it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    uuid: ShortText
    kind: ShortText
    memory_gib: float = Field(ge=0, le=1e6)
    driver: ShortText = ""
    free: bool = True


class ReportedAttempt(BaseModel):
    """An attempt that runs on a worker. `exited`: the agent has ended, but processes of the job still run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: AttemptName
    owner: OwnerId
    state: Literal["starting", "running", "exited"]


class EndedAttempt(BaseModel):
    """An attempt that ended on a worker, or that the worker refused to start (`refusal` is the error code)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: AttemptName
    owner: OwnerId
    detail: Text = ""
    refusal: ShortText = ""


class WorkerReport(BaseModel):
    """What a worker reports about itself. Times are by the broker's clock, except `clock_ms`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    protocol: Literal[1] = 1
    name: WorkerName
    instance: ShortText  # changes when the worker is restarted
    host: ShortText
    machine: ShortText = ""  # identifies the directory of the worker, to find two workers of the same name
    version: ShortText
    pid: int = Field(0, ge=0, le=2**31)
    started_at_ms: TimeMs
    at_ms: TimeMs
    clock_ms: TimeMs  # the worker's own clock
    gpus: Annotated[tuple[ReportedGpu, ...], Field(max_length=64)] = ()
    cpus: float = Field(0, ge=0, le=1e6)
    free_cpus: int | None = Field(None, ge=0, le=10**6)  # that no job has reserved; None: an older worker
    memory_gib: float = Field(0, ge=0, le=1e9)
    disk_gib: float = Field(0, ge=0, le=1e12)
    containers: bool = False
    draining: bool = False  # the worker is being stopped and accepts nothing new
    stopped: bool = False  # the worker has ended, and nothing runs there
    attempts: Annotated[tuple[ReportedAttempt, ...], Field(max_length=MAX_ATTEMPTS)] = ()
    ended: Annotated[tuple[EndedAttempt, ...], Field(max_length=ENDED_COUNT)] = ()

    @property
    def is_idle(self) -> bool:
        return not self.attempts and not self.draining

    @property
    def free_gpus(self) -> int:
        return sum(gpu.free for gpu in self.gpus)

    @property
    def unreserved_cpus(self) -> int:
        return math.floor(self.cpus) if self.free_cpus is None else self.free_cpus


def is_attempt(owner: object, name: object) -> bool:
    """Return whether these are the owner and the name of an attempt."""
    try:
        EndedAttempt.model_validate({"owner": owner, "name": name})
    except ValueError:
        return False
    return True


def own_version() -> str:
    """Return the version of the running anygpu."""
    return str(sys.modules["anygpu"].__version__)


def start_message(launch: LaunchRequest, owner: str) -> StartMessage:
    """Return the message that starts an attempt."""
    gpus = launch.resources.gpu.count if launch.resources.gpu else 0
    return StartMessage(
        name=launch.name,
        owner=owner,
        ticket=ticket_content(launch),
        gpus=gpus,
        cpus=cpu_slot_count(launch.resources),
    )


class BrokerKeys:
    """The names of everything that anygpu keeps in the broker for one queue."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self._prefix = f"anygpu:{queue}"
        self.workers = f"{self._prefix}:workers"  # sorted set: worker -> time of its last report, in ms
        self.changes = f"{self._prefix}:changes"  # channel: `owner/attempt` that has started or ended

    def report(self, worker: str) -> str:
        """The key of the worker's last report. It expires."""
        return f"{self._prefix}:worker:{worker}"

    def ends(self, worker: str) -> str:
        """The set of attempts (`owner/attempt`) that the worker has to end. It removes those that have ended."""
        return f"{self._prefix}:ends:{worker}"

    def wake(self, worker: str) -> str:
        """The channel that tells a worker to read its orders now."""
        return f"{self._prefix}:wake:{worker}"

    def worker_queue(self, worker: str) -> str:
        """The Celery queue of one worker. An attempt is started on the worker of the chosen offer."""
        return f"{self.queue}.{worker}"
