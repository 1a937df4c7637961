"""The assignment: what an agent has to run, as the server answers when the agent claims its attempt.

Missing fields get the defaults of the protocol.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CheckpointRule:
    """Which files are checkpoints, how often to upload them, and the arguments to add when a job resumes."""

    __slots__ = ("every_s", "paths", "resume_args", "world_size")

    def __init__(self, payload: dict[str, Any]) -> None:
        self.paths: list[str] = payload.get("paths") or []
        self.every_s = float(payload.get("every_s") or 300.0)
        self.resume_args: list[str] = payload.get("resume_args") or []
        # The number of processes, if the job starts them itself.
        self.world_size: int | None = payload.get("world_size")


class RankLayout:
    """How many processes the job has, and which of them this node runs."""

    __slots__ = ("launcher", "node", "nodes", "processes_per_node")

    def __init__(self, payload: dict[str, Any]) -> None:
        self.node = int(payload.get("node") or 0)
        self.nodes = int(payload.get("nodes") or 1)
        self.launcher = str(payload.get("launcher") or "none")
        self.processes_per_node = int(payload.get("processes_per_node") or 1)

    @property
    def world_size(self) -> int:
        return self.nodes * self.processes_per_node


class JobInstructions:
    """The command, files, environment and limits of a job."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self.argv: list[str] | None = payload.get("argv")
        self.shell: str | None = payload.get("shell")
        self.code: str | None = payload.get("code")
        self.python: str | None = payload.get("python")
        self.image: str | None = payload.get("image")
        self.env: dict[str, str] = payload.get("env") or {}
        self.secrets: dict[str, str] = payload.get("secrets") or {}
        self.archive: dict[str, Any] | None = payload.get("archive")
        self.directory: str | None = payload.get("directory")
        self.subdir: str = payload.get("subdir") or ""
        self.requirements: list[str] = payload.get("requirements") or []
        self.setup: list[str] = payload.get("setup") or []
        self.dataset: dict[str, Any] | None = payload.get("dataset")
        self.outputs: list[str] = payload.get("outputs") or []
        self.results: dict[str, Any] | None = payload.get("results")
        self.checkpoint = CheckpointRule(payload.get("checkpoint") or {})
        self.resume: dict[str, Any] | None = payload.get("resume")
        self.ranks = RankLayout(payload.get("ranks") or {})
        self.has_ranks = "ranks" in payload
        self.timeout_s: float | None = payload.get("timeout_s")
        self.grace_s = float(payload.get("grace_s", 10))
        self.log_frame_bytes = int(payload.get("log_line_limit") or 65536)
        self.spool_limit_bytes = int(payload.get("spool_limit_bytes") or 268435456)


class Assignment:
    """The attempt to run: its token, the time intervals that the server chose (seconds), and its job."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.token: str = response["token"]
        self.job_id: str = response["job_id"]
        self.attempt = int(response["attempt"])
        self.name: str = response["name"]
        self.lease_s = float(response.get("lease_s", 60))
        self.heartbeat_s = float(response.get("heartbeat_s", 5))
        self.report_every_s = float(response.get("report_every_s", 0.2))
        self.telemetry_every_s = float(response.get("telemetry_every_s", 10))
        self.deliver_s = float(response.get("deliver_s", 3600))
        self.job = JobInstructions(response["work"])
        self._payload = response["work"]

    def url_for(self, sha256: str) -> str | None:
        """Return the signed URL of the file with hash `sha256`, or None if the assignment has no such file."""
        return _find_url(self._payload, sha256)


def _find_url(payload: Any, sha256: str) -> str | None:
    if isinstance(payload, dict) and payload.get("sha256") == sha256 and payload.get("url"):
        return str(payload["url"])
    parts = payload.values() if isinstance(payload, dict) else payload if isinstance(payload, list) else ()
    urls = (_find_url(part, sha256) for part in parts)
    return next((url for url in urls if url), None)
