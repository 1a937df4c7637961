"""S3: LocalStack, which checks the signatures of signed URLs when it is told to."""

import contextlib
import urllib.request
from collections.abc import Iterator

from tests.contracts.blobs.processes import free_port, serving

BUCKET = "anygpu"
KEYS = {"access_key_id": "test", "secret_access_key": "test"}


@contextlib.contextmanager
def serving_s3(python: list[str]) -> Iterator[dict[str, object]]:
    """Options for `open_blobs("s3://anygpu/…")`."""
    port = free_port()
    env = {
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "GATEWAY_SERVER": "hypercorn",  # the other one listens on every address
        "LOCALSTACK_HOST": f"127.0.0.1:{port}",
        "SERVICES": "s3",
        "STRICT_SERVICE_LOADING": "1",
        "S3_SKIP_SIGNATURE_VALIDATION": "0",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
        "FILESYSTEM_ROOT": "state",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    with serving([*python, "-m", "localstack.runtime.main"], port, env):
        endpoint = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(
            urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=60
        ).close()
        yield {"endpoint": endpoint, "region": "us-east-1", "client": {"allow_http": True}, **KEYS}
