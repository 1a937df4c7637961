"""Follow a job until it ends: print its output and events, and handle Ctrl-C."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from anygpu.cli import exits
from anygpu.cli.terminal import formatting
from anygpu.cli.terminal.output import emit_json_line
from anygpu.cli.terminal.progress_bar import StreamStatus
from anygpu.cli.terminal.screen import Screen, screen_for
from anygpu.printable import printable
from anygpu.sdk.client import Client
from anygpu.sdk.stream import START, MessageStream, StreamCursor


def read_key(keys: str, question: str) -> str:
    """Print a question, wait until one of `keys` is pressed (without Enter), and return that key.

    If `keys` is empty, any key is an answer.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        return _read_key_with_click(keys, question)
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # before the question, so that a quick answer is not lost
        print(printable(question), end="", file=sys.stderr, flush=True)
        while key := os.read(terminal, 1).decode(errors="replace").lower():
            if not keys or key in keys:
                return key
        raise EOFError
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read_key_with_click(keys: str, question: str) -> str:
    import click

    print(printable(question), end="", file=sys.stderr, flush=True)
    while (key := click.getchar().lower()) not in list(keys or key):
        pass
    return key


Event = Mapping[str, Any]


class JobEnding:
    """Collects the exit code and the summary of a job from its events, until it has ended."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.status = ""
        self.failure: Mapping[str, Any] = {}
        self.artifacts: set[str] = set()

    def apply(self, event: Event) -> None:
        data = event["data"]
        if event["type"] == "AttemptEnded":
            self.exit_code, self.signal = data.get("exit_code"), data.get("signal")
        elif event["type"] == "AttemptLost":
            self.exit_code = self.signal = None
        elif event["type"] == "JobFailed":
            self.failure = data.get("failure") or {}
        elif event["type"] == "ArtifactSaved":
            self.artifacts.add(data["artifact"]["name"])

    def process_exit_code(self) -> int:
        """Return the exit code for the `anygpu` process: the script's exit code if the script failed."""
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

    def summary(self) -> str:
        message = str(self.failure.get("message") or "").rstrip(".")
        status = self.status.capitalize()
        return f"{status}: {message}" if message else status


def describe_event(event: Event) -> str:
    """Describe an event in one sentence; return an empty string for an event that needs no message."""
    data = event["data"]
    kind = event["type"]
    if kind in ("JobWaited", "AttemptQueued"):
        return f"Waiting: {data['reason']}"
    if kind == "AttemptLaunching":
        return _describe_launch(data)
    if kind == "AttemptLost":
        return f"Attempt {data['attempt']} was lost: {data.get('evidence') or 'its agent no longer sends reports'}"
    if kind == "RecoveryStarted":
        return _describe_recovery(data)
    if kind == "CheckpointRejected":
        step = data.get("step")
        which = "A checkpoint" if step is None else f"The checkpoint of step {step}"
        return f"{which} is damaged and is not used: {data['reason']}"
    if kind in ("TrainingResumed", "TrainingRestarted"):
        return _describe_resume(kind == "TrainingResumed", data)
    if kind == "StopRequested":
        return f"The job saves a checkpoint and stops: {data.get('message') or data['reason']}"
    return ""


def _describe_launch(data: Mapping[str, Any]) -> str:
    """Say where an attempt starts and at which price, and which checkpoint is restored."""
    offer, resume, attempt = data.get("offer"), data.get("resume"), f"Attempt {data['attempt']}"
    restored = f": the checkpoint of step {resume['step']} is restored" if resume else ""
    if not offer:
        return f"{attempt}{restored}." if restored else ""
    price = formatting.hourly_price(offer.get("price_microusd_per_hour"))
    return f"{attempt} starts on {formatting.place(offer)}, {price}{restored}."


def _describe_recovery(data: Mapping[str, Any]) -> str:
    resume = data.get("resume")
    point = f"the newest checkpoint is of step {resume['step']}" if resume else "starting again from step 0"
    lost = formatting.work_lost(data.get("work_lost_s") or 0, data.get("work_lost_microusd") or 0)
    why = data["failure"]["message"].rstrip(".")
    return f"Attempt {data['attempt']}: {why}; {point}, {lost} of work lost."


def _describe_resume(resumed: bool, data: Mapping[str, Any]) -> str:
    saved, first = data["checkpoint_step"], data["first_step"]
    if resumed:
        return f"Resumed from the checkpoint of step {saved}; the first reported step is {first}."
    lost = formatting.work_lost(data.get("work_lost_s") or 0, data.get("work_lost_microusd") or 0)
    return (
        f"Restarted from the beginning: {lost} of work lost. The checkpoint of step {saved} was restored, but the"
        f" first reported step is {first}."
    )


class JobFollower:
    """A follower that prints a job's output and events until the job ends or the user detaches."""

    def __init__(
        self,
        client: Client,
        job_id: str,
        *,
        screen: Screen | None = None,
        cursor: StreamCursor = START,
        raw: bool = False,
    ) -> None:
        self.status = StreamStatus()
        self.ending = JobEnding()
        self._client = client
        self._job_id = job_id
        self._screen = screen or screen_for(self._status_line, raw=raw)
        self._stream: MessageStream = client.stream(job_id, cursor=cursor, on_break=self._print_disconnected)
        self._is_cancelling = False
        self._interrupts = 0

    def run(self) -> int:
        """Follow the job and return the exit code for the `anygpu` process."""
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            for message in self._stream:
                code = self._handle(message)
                if code is not None:
                    return code
        finally:
            signal.signal(signal.SIGINT, before)
            self._screen.close()
        raise AssertionError("a stream ends with `end`")

    def _handle(self, message: dict[str, Any]) -> int | None:
        kind = message["kind"]
        if kind == "interrupted":
            return self._handle_interrupt()
        if kind == "end":
            return self._handle_end(message["status"])
        if kind == "log":
            self._screen.log(message["data"])
        if kind == "event":
            self._handle_event(message["event"])
        self.status.update(message, time.monotonic())
        self._screen.refresh()
        return None

    def _handle_event(self, event: Event) -> None:
        self.ending.apply(event)
        if text := describe_event(event):
            self._screen.message(text)

    def _handle_end(self, status: str) -> int:
        self.ending.status = status
        self._screen.close()
        took = formatting.duration(time.monotonic() - self.status.began_at)
        files = len(self.ending.artifacts)
        more = f", {formatting.plural(files, 'file')} to fetch" if files else ""
        Screen().message(f"{self.ending.summary()} ({took}{more}). Details: `anygpu show {self._job_id}`.")
        if self._is_cancelling and status == "cancelled":
            return exits.INTERRUPTED
        return self.ending.process_exit_code()

    def _status_line(self, width: int) -> str:
        return self.status.line(width, time.monotonic())

    def _print_disconnected(self, error: Exception) -> None:
        self._screen.message(
            "The connection to the server was lost. The job keeps running; connecting again."
        )

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        self._stream.interrupt()

    def _handle_interrupt(self) -> int | None:
        self._screen.close()
        pressed_twice = self._interrupts > 1
        self._interrupts = 0
        if not self._is_cancelling and not pressed_twice and ask_detach_or_cancel() == "c":
            self._is_cancelling = True
            self._client.another().cancel(self._job_id)
            self._screen.message("Cancelling. Press Ctrl-C again to stop waiting.")
            return None
        Screen().message(
            f"Detached; the job keeps running. Follow it with `anygpu logs -f {self._job_id}`, "
            f"cancel it with `anygpu cancel {self._job_id}`."
        )
        return exits.INTERRUPTED


def ask_detach_or_cancel() -> str:
    """Ask whether to detach or cancel; return `d` or `c`.

    Return `d` without asking if there is no terminal, and after a second Ctrl-C.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "d"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        question = "\nanygpu: Detach (d) and let the job run, or cancel it (c)? "
        answer = read_key("dc", question)
        print(answer, file=sys.stderr)
        return answer
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)
        return "d"
    finally:
        signal.signal(signal.SIGINT, before)


def follow_as_json(
    client: Client, submitted: dict[str, Any], on_end: Callable[[], None] = lambda: None
) -> int:
    """Print each message of the stream as a JSON line.

    The last line contains the exit code, which is returned. `on_end` is called before the last line.
    """
    emit_json_line({"kind": "submitted", **submitted})
    outcome = JobEnding()
    for message in client.stream(submitted["id"]):
        if message["kind"] == "event":
            outcome.apply(message["event"])
        if message["kind"] == "end":
            on_end()
            outcome.status = message["status"]
            message = {**message, "exit_code": outcome.process_exit_code()}
        emit_json_line(_with_text_log(message))
    return outcome.process_exit_code()


def _with_text_log(message: dict[str, Any]) -> dict[str, Any]:
    if message["kind"] != "log":
        return message
    return {**message, "data": message["data"].decode(errors="replace")}
