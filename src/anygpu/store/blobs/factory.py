"""Open the blob store that a URL names: a directory, S3, Google Cloud Storage or Azure."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from anygpu.errors import InvalidSpec, Problem
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.keys import require_signable_key

SCHEMES = ("file", "s3", "gs", "az")
CLIENT = {"connect_timeout": "5s", "timeout": "600s"}  # a chunk of 256 MiB takes minutes on a slow connection
RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


def open_blobs(
    url: str,
    *,
    secret: bytes = b"",
    base_url: str = "",
    options: Mapping[str, Any] | None = None,
) -> Blobs:
    """Open `file:///directory`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.

    `secret` and `base_url` are used to sign the URLs of a local directory. `options` are the provider's
    settings (endpoint, region, keys), plus `client` and `retry` for its HTTP client. Options that are not
    given are read from the provider's environment variables.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme == "file" and not parts.netloc and path.strip("/"):
        return _local(path, secret, base_url)
    prefix = path.strip("/")
    if parts.scheme in SCHEMES and parts.scheme != "file" and parts.netloc:
        return _cloud(
            parts.scheme, parts.netloc, require_signable_key(prefix) if prefix else None, dict(options or {})
        )
    schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
    raise InvalidSpec(
        [Problem("storage.url", url, f"is not the URL of a file store; it must start with one of {schemes}")]
    )


def _local(path: str, secret: bytes, base_url: str) -> Blobs:
    from pathlib import Path

    from anygpu.store.blobs.local import LocalBlobs

    return LocalBlobs(Path(path), secret=secret, base_url=base_url)


def _cloud(scheme: str, bucket: str, prefix: str | None, options: dict[str, Any]) -> Blobs:
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, GCSStore, S3Store

    from anygpu.store.blobs.cloud import CloudBlobs

    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    client, retry = options.pop("client", None), options.pop("retry", None)
    try:
        store = kinds[scheme](
            bucket, prefix=prefix, client_options=client, retry_config=retry, config=options
        )
    except (BaseError, ValueError, TypeError) as error:
        raise InvalidSpec(
            [Problem("storage.options", sorted(options), str(error).partition("\n")[0])]
        ) from error
    return CloudBlobs(store)
