"""The stores behind the relays."""

import pytest
from tests.contracts.blobs.conftest import azure, emulators, gcs, s3

__all__ = ["azure", "emulators", "gcs", "s3"]

pytest.register_assert_rewrite("anygpu.testing.contracts.relay")
