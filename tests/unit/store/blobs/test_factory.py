"""Opening a blob store by its URL."""

import subprocess
import sys
from pathlib import Path

import pytest

from anygpu.errors import InvalidSpec, UnsafePath
from anygpu.store.blobs.factory import open_blobs
from anygpu.store.blobs.local import LocalBlobs
from anygpu.testing.contracts.blobs import pieces


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "blobs", secret=b"s")


async def test_a_url_opens_the_store_it_names(tmp_path: Path) -> None:
    blobs = open_blobs((tmp_path / "a b").as_uri(), secret=b"s", base_url="http://127.0.0.1:1")
    await blobs.put("x", pieces(b"1", b"2"))
    assert (tmp_path / "a b" / "x").read_bytes() == b"12"
    assert (await blobs.sign("GET", "x", expires_s=1)).startswith("http://127.0.0.1:1/blobs/x?method=GET")


@pytest.mark.parametrize(
    "url", ["", "blobs", "file:", "file:///", "file://host/x", "ftp://x/y", "s3://", "s3:///x"]
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidSpec, match=r"storage\.url"):
        open_blobs(url)


def test_an_option_the_provider_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"storage\.options"):
        open_blobs("s3://bucket", options={"regoin": "x"})


def test_a_prefix_that_could_not_be_signed_is_refused() -> None:
    with pytest.raises(UnsafePath):
        open_blobs("s3://bucket/a%20b")


def test_the_interface_and_publishing_do_not_import_obstore() -> None:
    code = "import sys, anygpu.store.blobs.cloud, anygpu.store.blobs.local, anygpu.store.blobs.sweep;"
    code += "sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
