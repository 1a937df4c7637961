"""Watch for the preemption notice of a spot machine.

Each provider publishes it on the machine's metadata server. AWS: `spot/instance-action` exists two minutes before (EC2
User Guide, "Spot Instance interruption notices"). Google: `instance/preempted` becomes TRUE 30 seconds before (Compute
Engine, "Create and use Spot VMs"). Azure: an event of type Preempt is scheduled at least 30 seconds before (Azure,
"Scheduled Events for Linux VMs"). Elsewhere the shutdown of the machine sends SIGTERM.
"""

from __future__ import annotations

import json
import os
import threading
import time

from anygpu.agent.link.http11 import HttpConnection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from anygpu.agent.link.http11 import StreamedResponse

    Poll = Callable[[], Optional["PreemptionNotice"]]

LINK_LOCAL = "169.254.169.254"
AWS_POLL_S = 2.0
AZURE_POLL_S = 1.0
GOOGLE_NOTICE_S = 30.0
GOOGLE_LONG_POLL_S = 30
AWS_TOKEN_TTL_S = 21600
REQUEST_TIMEOUT_S = 5.0
RETRY_S = 5.0


class PreemptionNotice:
    """The provider takes the machine away at `at` (monotonic clock).

    `source` is the provider's message, for the log.
    """

    __slots__ = ("at", "source")

    def __init__(self, seconds_left: float, source: str) -> None:
        self.at = time.monotonic() + max(0.0, seconds_left)
        self.source = source


def watch_for_notice(kind: str, take: Callable[[PreemptionNotice], None]) -> None:
    """Poll the metadata server of provider `kind` in a thread, and call `take` with the preemption notice.

    Does nothing if `kind` is "" or unknown.
    """
    pollers: dict[str, Callable[[], Poll | None]] = {
        "aws": aws_poller,
        "gcp": google_poller,
        "azure": azure_poller,
    }
    poll = pollers[kind]() if kind in pollers else None
    if poll is not None:
        threading.Thread(target=_poll_until_notice, args=(poll, take), name="notices", daemon=True).start()


def _poll_until_notice(poll: Poll, take: Callable[[PreemptionNotice], None]) -> None:
    while True:
        try:
            notice = poll()
        except (Unreachable, ValueError, KeyError, TypeError, AttributeError):
            # Retry: without an answer there is nothing to do. The server learns of the preemption in another way too.
            time.sleep(RETRY_S)
            continue
        if notice is not None:
            return take(notice)


class MetadataClient:
    """Reads from the provider's metadata server, which every machine of the provider can reach."""

    def __init__(self, base: str) -> None:
        base = base.rstrip("/")
        self._connection = HttpConnection(lambda: base)

    def request(
        self, path: str, headers: dict[str, str], method: str = "GET", timeout_s: float = REQUEST_TIMEOUT_S
    ) -> tuple[StreamedResponse, str]:
        response = self._connection.request(method, path, headers, b"", timeout_s)
        return response, response.body().decode("utf-8", "replace")


def aws_poller() -> Poll | None:
    """Return the poll function for AWS.

    Return None if AWS_EC2_METADATA_DISABLED is set. AWS's own clients obey this variable too.
    """
    endpoint = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    if not endpoint and os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    metadata, token = MetadataClient(endpoint or f"http://{LINK_LOCAL}"), [""]

    def poll() -> PreemptionNotice | None:
        if not token[0]:
            ttl = {"X-aws-ec2-metadata-token-ttl-seconds": str(AWS_TOKEN_TTL_S)}
            response, text = metadata.request("/latest/api/token", ttl, "PUT")
            if response.status != 200:
                raise Unreachable(
                    f"the cloud's metadata service gave no token: it answered with HTTP status {response.status}"
                )
            token[0] = text.strip()
        header = {"X-aws-ec2-metadata-token": token[0]}
        response, text = metadata.request("/latest/meta-data/spot/instance-action", header)
        if response.status == 200:
            return parse_aws_notice(text, _provider_time(response))
        if response.status == 401:
            token[0] = ""
        time.sleep(AWS_POLL_S)
        return None

    return poll


def parse_aws_notice(document: str, now_s: float) -> PreemptionNotice:
    """Parse `{"action": "terminate", "time": "2026-09-18T08:22:00Z"}`."""
    at_s = _unix_s(json.loads(document)["time"], "%Y-%m-%dT%H:%M:%SZ")
    return PreemptionNotice(at_s - now_s, f"AWS spot/instance-action says {document.strip()}")


def google_poller() -> Poll:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    metadata, etag = MetadataClient(f"http://{host}"), [""]

    def poll() -> PreemptionNotice | None:
        path = "/computeMetadata/v1/instance/preempted"
        if etag[0]:
            path += f"?wait_for_change=true&last_etag={etag[0]}&timeout_sec={GOOGLE_LONG_POLL_S}"
        response, text = metadata.request(
            path, {"Metadata-Flavor": "Google"}, timeout_s=GOOGLE_LONG_POLL_S + REQUEST_TIMEOUT_S
        )
        if response.status != 200:
            raise Unreachable(f"the cloud's metadata server answered with HTTP status {response.status}")
        etag[0] = response.headers.get("etag", "0")
        return (
            PreemptionNotice(GOOGLE_NOTICE_S, "Google instance/preempted is TRUE")
            if text.strip() == "TRUE"
            else None
        )

    return poll


def azure_poller() -> Poll:
    """Return the poll function for Azure. An environment variable of Azure's clients can set another endpoint."""
    base = os.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or f"http://{LINK_LOCAL}"
    metadata, name = MetadataClient(base), [""]
    header = {"Metadata": "true"}

    def poll() -> PreemptionNotice | None:
        if not name[0]:
            path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            response, text = metadata.request(path, header)
            name[0] = text.strip() if response.status == 200 else "?"
        response, text = metadata.request("/metadata/scheduledevents?api-version=2020-07-01", header)
        notice = (
            parse_azure_notice(text, name[0], _provider_time(response)) if response.status == 200 else None
        )
        if notice is None:
            time.sleep(AZURE_POLL_S)
        return notice

    return poll


def parse_azure_notice(document: str, name: str, now_s: float) -> PreemptionNotice | None:
    """Return the notice from the first Preempt event for machine `name`, or None.

    Azure sends the events of a whole scale set to each of its machines, so other machines' events are
    skipped. An event without a time means now.
    """
    for event in json.loads(document).get("Events") or []:
        affects_us = name == "?" or name in (event.get("Resources") or [name])
        if event.get("EventType") == "Preempt" and affects_us:
            at = event.get("NotBefore")
            left_s = _unix_s(at, "%a, %d %b %Y %H:%M:%S GMT") - now_s if at else 0.0
            return PreemptionNotice(
                left_s, f"Azure scheduled event {event.get('EventId', '')}: Preempt, not before {at}"
            )
    return None


def _provider_time(response: StreamedResponse) -> float:
    """Return the provider's time from the Date header, because the machine's clock may be wrong."""
    date = response.headers.get("date")
    try:
        return _unix_s(date, "%a, %d %b %Y %H:%M:%S GMT") if date else time.time()
    except ValueError:
        return time.time()


def _unix_s(text: str, form: str) -> float:
    import calendar

    return float(calendar.timegm(time.strptime(text, form)))
