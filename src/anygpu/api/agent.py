"""JSON bodies of the agent protocol (docs/reference/agent-protocol.md).

The agent does not import these models, because it has no dependencies. Agents of other versions may send
additional keys.
"""

from typing import Any

from pydantic import Field

from anygpu.api.base import ApiModel


class ClaimRequest(ApiModel):
    """The request with which an agent takes over its attempt. The first agent that sends it owns the attempt."""

    ticket: str = Field(max_length=1000)
    claimant: str = Field(max_length=128)
    host: dict[str, Any]
    node: int = Field(
        default=0, ge=0, le=1023, description="Number of the node, of an attempt on several nodes."
    )


class AttemptAssignment(ApiModel):
    """The answer to the agent that takes over an attempt: its token, its time intervals and its job."""

    protocol: int
    token: str
    job_id: str
    attempt: int
    name: str
    lease_s: float
    heartbeat_s: float
    report_every_s: float
    telemetry_every_s: float
    urls: list[str] = Field(default=[], description="Addresses of all servers that share the database.")
    work: dict[str, Any]


class AgentOrder(ApiModel):
    """A command of the server to the agent: `cancel`, or `stop` with a reason."""

    kind: str
    reason: str | None = None


class ReportReceipt(ApiModel):
    """The answer to a report or heartbeat. The server has stored the frames (numbered reports) up to number `acked`.

    While `watched` is true, a page in a browser shows the job, and the agent reports at the short interval.
    """

    acked: int
    lease_s: float
    orders: list[AgentOrder]
    watched: bool
    urls: list[str] = Field(default=[], description="Addresses of all servers that share the database.")


class CurrentOrders(ApiModel):
    """All current orders (cancel or stop) for the agent of an attempt."""

    version: int
    orders: list[AgentOrder]
    lease_s: float


class NodeReadiness(ApiModel):
    """The message of an agent whose node is prepared and which waits for the other nodes of its attempt."""

    address: str = Field(description="Name or address at which the other nodes reach this node.")
    port: int = Field(description="A free port of this node.")
    restored: bool | None = Field(
        default=None,
        description="Whether this node has restored the checkpoint to resume from; null if there is none.",
    )


class NodeDeparture(ApiModel):
    """The message of an agent that stops one node of an attempt on several nodes."""

    message: str = Field(default="", description="What the agent was told, such as a preemption notice.")
    reason: str = Field(
        default="",
        description="`timeout` if the job has reached its time limit; else its machine is taken away.",
    )


class StartSignal(ApiModel):
    """The answer to an agent that waits: whether all nodes are ready, and where the processes find each other."""

    start: bool
    missing: list[int] = Field(description="Nodes that are not ready yet.")
    master_addr: str | None = None
    master_port: int | None = None
    orders: list[AgentOrder]


class ChunkDescription(ApiModel):
    """A chunk (part) of a file to upload."""

    size: int
    sha256: str


class UploadFile(ApiModel):
    """A file to upload, with its chunks."""

    path: str
    size: int
    sha256: str
    chunks: list[ChunkDescription]


class CheckpointUpload(ApiModel):
    """A checkpoint to upload. Its newest file is first."""

    step: int
    at: float
    world_size: int
    unit: str | None = None
    epoch: int | None = None
    files: list[UploadFile]


class ArtifactUpload(ApiModel):
    """An artifact to upload."""

    name: str
    file: UploadFile


class MissingChunk(ApiModel):
    """A chunk that the server does not have, and the request that uploads it."""

    sha256: str
    url: str
    method: str
    headers: dict[str, str]


class UploadPlan(ApiModel):
    """The answer to a new checkpoint or artifact: the parts (chunks) to upload, and the id to commit it with."""

    id: str
    uploads: list[MissingChunk]


class EndReport(ApiModel):
    """The last message of an agent: how the process ended."""

    outcome: str
    exit_code: int | None = None
    signal: int | None = None
    message: str | None = None
    last_seq: int | None = None
    log_bytes: int | None = None
    metric_points: int | None = None
    step: int | None = None
    memory: dict[str, Any] | None = None


class Acknowledgement(ApiModel):
    """The server's confirmation that a commit (a checkpoint, an artifact or the end) was stored."""

    ok: bool
    wait: bool = Field(
        default=False,
        description="The agent of a node stays until the other nodes of its attempt have ended.",
    )
