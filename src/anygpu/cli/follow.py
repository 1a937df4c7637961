"""Follow a job to its end: its output, what happens to it, and what Ctrl-C shall mean."""

import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from anygpu.cli import exits, words
from anygpu.cli.bar import Pulse
from anygpu.cli.screen import Screen, screen_for
from anygpu.sdk.client import Client
from anygpu.sdk.stream import BEGINNING, Cursor, Stream

Event = Mapping[str, Any]


class Outcome:
    """How the job ended, gathered from its events, as an exit code and a sentence."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.status = ""
        self.failure: Mapping[str, Any] = {}
        self.artifacts: set[str] = set()

    def take(self, event: Event) -> None:
        data = event["data"]
        if event["type"] == "AttemptEnded":
            self.exit_code, self.signal = data.get("exit_code"), data.get("signal")
        elif event["type"] == "AttemptLost":
            self.exit_code = self.signal = None
        elif event["type"] == "JobFailed":
            self.failure = data.get("failure") or {}
        elif event["type"] == "ArtifactSaved":
            self.artifacts.add(data["artifact"]["name"])

    def code(self) -> int:
        """The script's own code where it has one."""
        if self.status == "completed":
            return exits.OK
        if self.status == "cancelled":
            return exits.CANCELLED
        if self.failure.get("code") == "timeout":
            return exits.TIMED_OUT
        if self.signal:
            return 128 + self.signal
        if self.exit_code and self.exit_code > 0:
            return min(self.exit_code, 255)
        return exits.FAILED

    def sentence(self) -> str:
        said = self.failure.get("message")
        return f"{self.status}: {said}" if said else self.status


def remark_on(event: Event) -> str:
    """What an event means to somebody who follows; nothing for those that only confirm what is seen anyway."""
    data = event["data"]
    kind = event["type"]
    if kind == "JobWaited":
        return f"waiting: {data['reason']}"
    if kind == "AttemptLost":
        return f"attempt {data['attempt']} was lost: {data.get('evidence') or 'no word from it'}"
    if kind == "RecoveryStarted":
        return _recovery(data)
    if kind == "CheckpointRejected":
        return f"a checkpoint could not be read back ({data['reason']}); the one before it is used"
    if kind == "StopRequested":
        return f"stopping at a checkpoint: {data.get('message') or data['reason']}"
    return ""


def _recovery(data: Mapping[str, Any]) -> str:
    resume = data.get("resume")
    point = f"resuming from step {resume['step']}" if resume else "starting again from the beginning"
    lost = words.duration(data.get("work_lost_s") or 0)
    why = data["failure"]["message"].rstrip(".")
    return f"attempt {data['attempt']}: {why}; {point}, {lost} of work lost"


class Follower:
    """One job on one screen, until it ends or we leave."""

    def __init__(
        self, client: Client, job_id: str, *, screen: Screen | None = None, cursor: Cursor = BEGINNING
    ) -> None:
        self.pulse = Pulse()
        self.outcome = Outcome()
        self._client = client
        self._job_id = job_id
        self._screen = screen or screen_for(self._status)
        self._stream: Stream = client.stream(job_id, cursor=cursor, on_break=self._say_broken)
        self._asked_to_cancel = False
        self._interrupts = 0

    def run(self) -> int:
        """The exit code to leave with."""
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            for message in self._stream:
                code = self._take(message)
                if code is not None:
                    return code
        finally:
            signal.signal(signal.SIGINT, before)
            self._screen.close()
        raise AssertionError("a stream ends with `end`")

    def _take(self, message: dict[str, Any]) -> int | None:
        kind = message["kind"]
        if kind == "interrupted":
            return self._ask()
        if kind == "end":
            return self._ended(message["status"])
        if kind == "log":
            self._screen.log(message["data"])
        if kind == "event":
            self._told(message["event"])
        self.pulse.take(message, time.monotonic())
        self._screen.refresh()
        return None

    def _told(self, event: Event) -> None:
        self.outcome.take(event)
        if text := remark_on(event):
            self._screen.remark(text)

    def _ended(self, status: str) -> int:
        self.outcome.status = status
        self._screen.close()
        took = words.duration(time.monotonic() - self.pulse.began_at)
        files = len(self.outcome.artifacts)
        more = f"; {words.plural(files, 'file')} to fetch" if files else ""
        Screen().remark(f"{self.outcome.sentence()} ({took}{more}) · anygpu show {self._job_id}")
        if self._asked_to_cancel and status == "cancelled":
            return exits.INTERRUPTED
        return self.outcome.code()

    def _status(self, width: int) -> str:
        return self.pulse.line(width, time.monotonic())

    def _say_broken(self, error: Exception) -> None:
        self._screen.remark("the connection to the server broke; the job goes on, connecting again")

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        self._stream.interrupt()

    def _ask(self) -> int | None:
        self._screen.close()
        in_a_hurry = self._interrupts > 1
        self._interrupts = 0
        if not self._asked_to_cancel and not in_a_hurry and asked_detach_or_cancel() == "c":
            self._asked_to_cancel = True
            self._client.another().cancel(self._job_id)
            self._screen.remark("cancelling; Ctrl-C again leaves it to end by itself")
            return None
        Screen().remark(
            f"detached; the job goes on · anygpu logs -f {self._job_id} · anygpu cancel {self._job_id}"
        )
        return exits.INTERRUPTED


def asked_detach_or_cancel() -> str:
    """`d` or `c`. Without a terminal to ask on, and at a second Ctrl-C, the job is left to run."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "d"
    from anygpu.cli.keys import pressed

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        question = "\nanygpu: detach (d) and let the job run, or cancel (c) it? "
        answer = pressed("dc", question)
        print(answer, file=sys.stderr)
        return answer
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)
        return "d"
    finally:
        signal.signal(signal.SIGINT, before)
