"""The relays that the settings describe."""

from pathlib import Path

import pytest

from anygpu.settings import load
from anygpu.store.blobs.factory import open_blobs
from anygpu.wiring.relay import build_relays


@pytest.mark.parametrize("blobs", ["file:files", "s3://bucket/prefix"])
def test_every_relay_is_polled_as_the_settings_say(tmp_path: Path, blobs: str) -> None:
    file = tmp_path / "anygpu.toml"
    file.write_text(f'[relay]\ndirectory = "{tmp_path}"\npoll_s = 7\n\n[store]\nblobs = "{blobs}"\n')
    settings = load(file, environ={"HOME": str(tmp_path)})
    relays = build_relays(settings, open_blobs(f"file:{tmp_path}"))
    assert relays.directory is not None
    assert relays.directory.poll_s == relays.poll_s == 7
    assert (relays.storage is not None) == blobs.startswith("s3:")
