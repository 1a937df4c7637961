"""A followed job as JSON lines, for programs."""

from typing import Any

from anygpu.cli.follow import Outcome
from anygpu.cli.output import emit_json_line
from anygpu.sdk.client import Client


def follow_as_json(client: Client, submitted: dict[str, Any]) -> int:
    """The stream's own messages, log bytes as text; the last line has the exit code."""
    emit_json_line({"kind": "submitted", **submitted})
    outcome = Outcome()
    for message in client.stream(submitted["id"]):
        if message["kind"] == "event":
            outcome.take(message["event"])
        if message["kind"] == "end":
            outcome.status = message["status"]
            message = {**message, "exit_code": outcome.code()}
        emit_json_line(_textual(message))
    return outcome.code()


def _textual(message: dict[str, Any]) -> dict[str, Any]:
    if message["kind"] != "log":
        return message
    return {**message, "data": message["data"].decode(errors="replace")}
