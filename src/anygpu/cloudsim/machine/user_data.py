"""Parse user data as cloud-init does: a script, a cloud-config or a MIME message, optionally gzipped."""

import email
import gzip
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

import yaml

GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class ParsedUserData:
    """The scripts to run at boot, in order, and the keys that may log in."""

    scripts: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def parse_user_data(data: bytes) -> ParsedUserData:
    """Return the scripts and keys in user data. As in cloud-init, data in an unknown format is ignored."""
    starts = [_parse_part(part) for part in _parts(gzip.decompress(data) if data.startswith(GZIP) else data)]
    return ParsedUserData(
        tuple(script for start in starts for script in start.scripts),
        tuple(key for start in starts for key in start.keys),
    )


def _parts(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "replace")
    if not text.lower().startswith(("content-type:", "mime-version:")):
        yield text
        return
    for part in email.message_from_string(text).walk():
        if not part.is_multipart():
            yield _payload(part)


def _payload(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _parse_part(text: str) -> ParsedUserData:
    if text.startswith("#!"):
        return ParsedUserData(scripts=(text,))
    if not text.startswith("#cloud-config"):
        return ParsedUserData()
    config = yaml.safe_load(text) or {}
    commands = [*config.get("bootcmd", []), *config.get("runcmd", [])]
    script = "#!/bin/sh\n" + "".join(f"{_command(each)}\n" for each in commands)
    return ParsedUserData((script,) if commands else (), tuple(_keys(config)))


def _command(command: str | list[Any]) -> str:
    return command if isinstance(command, str) else shlex.join(str(word) for word in command)


def _keys(config: Mapping[str, Any]) -> Iterator[str]:
    yield from config.get("ssh_authorized_keys", [])
    for user in config.get("users", []):
        if isinstance(user, dict):
            yield from user.get("ssh_authorized_keys") or user.get("ssh-authorized-keys") or []
