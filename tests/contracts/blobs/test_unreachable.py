"""A store that does not answer, or does not know us, is said in our words; the vendor's are kept."""

import pytest
from tests.contracts.blobs.processes import free_port

from anygpu.errors import BackendUnavailable
from anygpu.store.blobs.factory import open_blobs

NO_PATIENCE = {"retry": {"max_retries": 0}, "client": {"allow_http": True, "timeout": "5s"}}


async def test_a_server_that_is_not_there_is_unavailable_not_empty() -> None:
    keys = {"access_key_id": "test", "secret_access_key": "test"}
    blobs = open_blobs(
        "s3://anygpu", options={"endpoint": f"http://127.0.0.1:{free_port()}", **keys, **NO_PATIENCE}
    )
    for doing in (
        blobs.put("a", b"x"),
        blobs.get("a"),
        blobs.get("a", start=1),
        blobs.head("a"),
        blobs.delete("a"),
    ):
        with pytest.raises(BackendUnavailable) as refused:
            await doing
        assert refused.value.retryable
        assert refused.value.__cause__ is not None
    with pytest.raises(BackendUnavailable):
        _ = [info async for info in blobs.list("")]
