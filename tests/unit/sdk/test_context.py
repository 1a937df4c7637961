from pathlib import Path

import pytest

from anygpu.errors import NotFound, Unauthorized
from anygpu.sdk.context import EMBEDDED, Context, find_context, load_contexts, save_contexts


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"ANYGPU_CONFIG": str(tmp_path / "anygpu" / "config.toml"), "HOME": str(tmp_path)}


def test_the_default_is_the_server_on_this_computer(environ: dict[str, str]) -> None:
    assert find_context(environ=environ).is_embedded


def test_the_environment_overrides_the_current_context(environ: dict[str, str]) -> None:
    save_contexts(load_contexts(environ).with_added(Context("lab", "https://lab.example", "t")))
    found = find_context(environ={**environ, "ANYGPU_URL": "https://other.example/", "ANYGPU_TOKEN": "x"})
    assert (found.url, found.token) == ("https://other.example", "x")


def test_a_url_without_a_token_is_an_error(environ: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match="ANYGPU_TOKEN"):
        find_context(environ={**environ, "ANYGPU_URL": "https://lab.example"})


def test_the_file_with_tokens_is_readable_by_its_owner_only(environ: dict[str, str]) -> None:
    save_contexts(load_contexts(environ).with_added(Context("lab", "https://lab.example", "t")))
    path = load_contexts(environ).path
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_login_becomes_current_and_removal_falls_back_to_local(environ: dict[str, str]) -> None:
    save_contexts(load_contexts(environ).with_added(Context("lab", "https://lab.example", "t")))
    assert find_context(environ=environ).name == "lab"
    save_contexts(load_contexts(environ).with_removed("lab"))
    assert find_context(environ=environ).name == EMBEDDED


def test_an_unknown_context_lists_the_known_ones(environ: dict[str, str]) -> None:
    with pytest.raises(NotFound, match="local"):
        find_context("lba", environ)
