"""Azure: Azurite, Microsoft's own emulator."""

import base64
import contextlib
import hashlib
import hmac
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate

from tests.contracts.blobs.processes import free_port, serving

CONTAINER = "anygpu"
ACCOUNT = "labaccount"
ACCOUNT_KEY = base64.b64encode(b"a key for the emulator on loopback, no secret!!").decode()


@contextlib.contextmanager
def serving_azure(command: list[str]) -> Iterator[dict[str, object]]:
    """Options for `open_blobs("az://anygpu/…")`."""
    port = free_port()
    flags = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    flags += ["--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    env = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with serving([*command, *flags], port, env):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(endpoint)
        client = {"allow_http": True}
        yield {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": endpoint, "client": client}


def _make_container(endpoint: str) -> None:
    date = formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    text = "PUT" + "\n" * 12 + headers + "\n" + resource
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(f"{endpoint}/{CONTAINER}?restype=container", method="PUT")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", "2021-08-06")
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}")
    urllib.request.urlopen(request, timeout=60).close()
