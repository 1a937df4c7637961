"""What a machine's serial console shows: cloud-init prints the host keys there, for whoever must trust them."""

import base64
import datetime as dt
import hashlib

RULE = "#" * 61


def kernel_lines(now_ms: int) -> str:
    at = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    return f"[    0.000000] Linux version (anygpu simulated machine)\r\nCloud-init: running 'modules:final' at {at}\r\n"


def host_key_block(public_key: str, host: str) -> str:
    """The two blocks in the form of cloud-init's `write-ssh-key-fingerprints`."""
    kind, body, *_ = public_key.split()
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode().rstrip("=")
    name = kind.removeprefix("ssh-").upper()
    lines = [
        f"ec2: {RULE}",
        "ec2: -----BEGIN SSH HOST KEY FINGERPRINTS-----",
        f"ec2: 256 SHA256:{digest} root@{host} ({name})",
        "ec2: -----END SSH HOST KEY FINGERPRINTS-----",
        f"ec2: {RULE}",
        "-----BEGIN SSH HOST KEY KEYS-----",
        public_key,
        "-----END SSH HOST KEY KEYS-----",
    ]
    return "".join(f"{line}\r\n" for line in lines)
