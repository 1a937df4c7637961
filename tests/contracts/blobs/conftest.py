"""The emulators, installed when they are missing, and a fake of ours: these tests never skip."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.blobs import azurite, localstack
from tests.contracts.blobs.gcs_fake import serving_gcs

pytest.register_assert_rewrite(
    *(f"anygpu.testing.contracts.{name}" for name in ("blobs", "publishing", "signed_urls"))
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def emulators() -> dict[str, list[str]]:
    script = ROOT / "scripts" / "install_store_emulators.py"
    done = subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.PIPE, timeout=600)
    commands: dict[str, list[str]] = json.loads(done.stdout)
    return commands


@pytest.fixture(scope="session")
def s3(emulators: dict[str, list[str]]) -> Iterator[dict[str, object]]:
    with localstack.serving_s3(emulators["localstack"]) as options:
        yield options


@pytest.fixture(scope="session")
def azure(emulators: dict[str, list[str]]) -> Iterator[dict[str, object]]:
    with azurite.serving_azure(emulators["azurite"]) as options:
        yield options


@pytest.fixture(scope="session")
def gcs() -> Iterator[dict[str, object]]:
    with serving_gcs() as options:
        yield options
