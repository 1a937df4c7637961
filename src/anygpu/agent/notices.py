"""Preemption notices: what a provider tells a machine before it takes it back.

Each provider says it in its own way at the metadata address of the machine. AWS: `spot/instance-action` is there two
minutes before (EC2 User Guide, "Spot Instance interruption notices"). Google: `instance/preempted` becomes TRUE 30
seconds before (Compute Engine, "Create and use Spot VMs"). Azure: an event of type Preempt is scheduled at least 30
seconds before (Azure, "Scheduled Events for Linux VMs"). Elsewhere the machine's own shutdown sends SIGTERM.
"""

from __future__ import annotations

import json
import os
import threading
import time

from anygpu.agent.http11 import Connection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from anygpu.agent.http11 import Answer

    Look = Callable[[], Optional["Notice"]]

LINK_LOCAL = "169.254.169.254"
AWS_EVERY_S = 2.0
AZURE_EVERY_S = 1.0
GOOGLE_GIVES_S = 30.0
GOOGLE_WAITS_S = 30
TOKEN_S = 21600
ASK_FOR_S = 5.0
AFTER_TROUBLE_S = 5.0


class Notice:
    """The machine will be taken away at `at` (monotonic); `said` is what the provider said, for people."""

    __slots__ = ("at", "said")

    def __init__(self, seconds_left: float, said: str) -> None:
        self.at = time.monotonic() + max(0.0, seconds_left)
        self.said = said


def watch(kind: str, take: Callable[[Notice], None]) -> None:
    """In a thread of its own. An unknown kind, or "", asks nobody."""
    looks: dict[str, Callable[[], Look | None]] = {"aws": aws, "gcp": google, "azure": azure}
    look = looks[kind]() if kind in looks else None
    if look is not None:
        threading.Thread(target=_follow, args=(look, take), name="notices", daemon=True).start()


def _follow(look: Look, take: Callable[[Notice], None]) -> None:
    while True:
        try:
            notice = look()
        except (Unreachable, ValueError, KeyError, TypeError, AttributeError):
            # Without an answer there is nothing to act on; the provider's word also reaches the server.
            time.sleep(AFTER_TROUBLE_S)
            continue
        if notice is not None:
            return take(notice)


class Metadata:
    """The address at which a machine learns about itself."""

    def __init__(self, base: str) -> None:
        base = base.rstrip("/")
        self._connection = Connection(lambda: base)

    def ask(
        self, path: str, headers: dict[str, str], method: str = "GET", timeout_s: float = ASK_FOR_S
    ) -> tuple[Answer, str]:
        answer = self._connection.request(method, path, headers, b"", timeout_s)
        return answer, answer.body().decode("utf-8", "replace")


def aws() -> Look | None:
    """None when asking is switched off, as for AWS's own clients."""
    told = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    if not told and os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    metadata, token = Metadata(told or f"http://{LINK_LOCAL}"), [""]

    def look() -> Notice | None:
        if not token[0]:
            ttl = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
            answer, said = metadata.ask("/latest/api/token", ttl, "PUT")
            if answer.status != 200:
                raise Unreachable(f"the metadata service gave no token: {answer.status}")
            token[0] = said.strip()
        header = {"X-aws-ec2-metadata-token": token[0]}
        answer, said = metadata.ask("/latest/meta-data/spot/instance-action", header)
        if answer.status == 200:
            return aws_notice(said, _now(answer))
        if answer.status == 401:
            token[0] = ""
        time.sleep(AWS_EVERY_S)
        return None

    return look


def aws_notice(said: str, now_s: float) -> Notice:
    """`{"action": "terminate", "time": "2026-09-18T08:22:00Z"}`."""
    at_s = _unix_s(json.loads(said)["time"], "%Y-%m-%dT%H:%M:%SZ")
    return Notice(at_s - now_s, f"AWS spot/instance-action says {said.strip()}")


def google() -> Look:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    metadata, etag = Metadata(f"http://{host}"), [""]

    def look() -> Notice | None:
        path = "/computeMetadata/v1/instance/preempted"
        if etag[0]:
            path += f"?wait_for_change=true&last_etag={etag[0]}&timeout_sec={GOOGLE_WAITS_S}"
        answer, said = metadata.ask(path, {"Metadata-Flavor": "Google"}, timeout_s=GOOGLE_WAITS_S + ASK_FOR_S)
        if answer.status != 200:
            raise Unreachable(f"the metadata server answered {answer.status}")
        etag[0] = answer.headers.get("etag", "0")
        return Notice(GOOGLE_GIVES_S, "Google instance/preempted is TRUE") if said.strip() == "TRUE" else None

    return look


def azure() -> Look:
    """The endpoint is the one Azure's own clients take from this variable."""
    base = os.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or f"http://{LINK_LOCAL}"
    metadata, name = Metadata(base), [""]
    header = {"Metadata": "true"}

    def look() -> Notice | None:
        if not name[0]:
            path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            answer, said = metadata.ask(path, header)
            name[0] = said.strip() if answer.status == 200 else "?"
        answer, said = metadata.ask("/metadata/scheduledevents?api-version=2020-07-01", header)
        found = azure_notice(said, name[0], _now(answer)) if answer.status == 200 else None
        if found is None:
            time.sleep(AZURE_EVERY_S)
        return found

    return look


def azure_notice(said: str, name: str, now_s: float) -> Notice | None:
    """Machines of one scale set hear of each other's events: ours names us. A time left out means now."""
    for event in json.loads(said).get("Events") or []:
        affects_us = name == "?" or name in (event.get("Resources") or [name])
        if event.get("EventType") == "Preempt" and affects_us:
            at = event.get("NotBefore")
            left_s = _unix_s(at, "%a, %d %b %Y %H:%M:%S GMT") - now_s if at else 0.0
            return Notice(
                left_s, f"Azure scheduled event {event.get('EventId', '')}: Preempt, not before {at}"
            )
    return None


def _now(answer: Answer) -> float:
    """The provider's own clock where it tells it: ours may be wrong by more than the notice is long."""
    date = answer.headers.get("date")
    try:
        return _unix_s(date, "%a, %d %b %Y %H:%M:%S GMT") if date else time.time()
    except ValueError:
        return time.time()


def _unix_s(text: str, form: str) -> float:
    import calendar

    return float(calendar.timegm(time.strptime(text, form)))
