"""What the server gave us to do: the answer to the claim, with the defaults of the protocol."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CheckpointRule:
    """Which files are training state, and how often they are worth publishing."""

    __slots__ = ("every_s", "paths", "resume_args")

    def __init__(self, said: dict[str, Any]) -> None:
        self.paths: list[str] = said.get("paths") or []
        self.every_s = float(said.get("every_s") or 300.0)
        self.resume_args: list[str] = said.get("resume_args") or []


class JobInstructions:
    """What to run, and with what around it."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.argv: list[str] | None = said.get("argv")
        self.shell: str | None = said.get("shell")
        self.code: str | None = said.get("code")
        self.python: str | None = said.get("python")
        self.image: str | None = said.get("image")
        self.env: dict[str, str] = said.get("env") or {}
        self.secrets: dict[str, str] = said.get("secrets") or {}
        self.archive: dict[str, Any] | None = said.get("archive")
        self.subdir: str = said.get("subdir") or ""
        self.requirements: list[str] = said.get("requirements") or []
        self.setup: list[str] = said.get("setup") or []
        self.dataset: dict[str, Any] | None = said.get("dataset")
        self.outputs: list[str] = said.get("outputs") or []
        self.checkpoint = CheckpointRule(said.get("checkpoint") or {})
        self.resume: dict[str, Any] | None = said.get("resume")
        self.timeout_s: float | None = said.get("timeout_s")
        self.grace_s = float(said.get("grace_s", 10))
        self.log_frame_bytes = int(said.get("log_line_limit") or 65536)
        self.spool_limit_bytes = int(said.get("spool_limit_bytes") or 268435456)


class Assignment:
    """The attempt that is ours: its token, its rhythm, its work."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.token: str = answer["token"]
        self.job_id: str = answer["job_id"]
        self.attempt = int(answer["attempt"])
        self.name: str = answer["name"]
        self.lease_s = float(answer.get("lease_s", 60))
        self.heartbeat_s = float(answer.get("heartbeat_s", 5))
        self.report_every_s = float(answer.get("report_every_s", 0.2))
        self.telemetry_every_s = float(answer.get("telemetry_every_s", 10))
        self.deliver_s = float(answer.get("deliver_s", 3600))
        self.job = JobInstructions(answer["work"])
        self._payload = answer["work"]

    def url_for(self, sha256: str) -> str | None:
        """The signed address of a file with this content, wherever the work speaks of it."""
        return _find_url(self._payload, sha256)


def _find_url(said: Any, sha256: str) -> str | None:
    if isinstance(said, dict) and said.get("sha256") == sha256 and said.get("url"):
        return str(said["url"])
    parts = said.values() if isinstance(said, dict) else said if isinstance(said, list) else ()
    return next((found for part in parts for found in [_find_url(part, sha256)] if found), None)
