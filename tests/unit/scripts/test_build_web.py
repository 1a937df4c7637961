"""When the web app is built again, what is compressed, and what the lock file of its packages contains."""

import gzip
import json
import sys
from pathlib import Path

import pytest
from scripts import build_web
from scripts.build_web import Node, WebBuildError


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one source file."""
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    (web / "package.json").write_text("{}")
    (web / "src" / "main.ts").write_text("1")
    own = tmp_path / "scripts" / "build_web.py"
    own.parent.mkdir()
    own.write_text("")
    monkeypatch.setattr(build_web, "ROOT", tmp_path)
    monkeypatch.setattr(build_web, "WEB", web)
    monkeypatch.setattr(build_web, "STATIC", tmp_path / "static")
    monkeypatch.setattr(build_web, "__file__", str(own))
    return tmp_path


def mark_as_built(checkout: Path) -> None:
    (checkout / "static").mkdir(exist_ok=True)
    (checkout / "static" / "build.json").write_text(json.dumps({"sources": build_web.hash_sources()}))


def test_a_missing_or_damaged_build_is_not_current(checkout: Path) -> None:
    assert not build_web.is_built()
    mark_as_built(checkout)
    assert build_web.is_built()
    (checkout / "static" / "build.json").write_text("{")
    assert not build_web.is_built()


@pytest.mark.parametrize("path", ["src/main.ts", "src/new.css", "package-lock.json"])
def test_a_changed_source_is_built_again(checkout: Path, path: str) -> None:
    mark_as_built(checkout)
    (checkout / "web" / path).write_text("2")
    assert not build_web.is_built()


@pytest.mark.parametrize("path", ["node_modules/react/index.js", "src/main.test.ts"])
def test_installed_packages_and_tests_are_no_sources(checkout: Path, path: str) -> None:
    mark_as_built(checkout)
    (checkout / "web" / path).parent.mkdir(parents=True, exist_ok=True)
    (checkout / "web" / path).write_text("2")
    assert build_web.is_built()


def test_a_package_without_sources_uses_the_built_files(checkout: Path) -> None:
    (checkout / "web" / "package.json").unlink()
    assert not build_web.is_built()
    (checkout / "static").mkdir()
    (checkout / "static" / "index.html").write_text("")
    assert build_web.is_built()


def test_large_texts_get_a_compressed_copy_that_is_always_the_same(tmp_path: Path) -> None:
    text = "let x = 1;\n" * 1000
    (tmp_path / "large.js").write_text(text)
    (tmp_path / "small.js").write_text("1")
    (tmp_path / "image.png").write_bytes(b"x" * 5000)
    build_web.compress_files(tmp_path)
    first = (tmp_path / "large.js.gz").read_bytes()
    build_web.compress_files(tmp_path)
    assert gzip.decompress(first).decode() == text
    assert (tmp_path / "large.js.gz").read_bytes() == first
    assert sorted(path.name for path in tmp_path.glob("*.gz")) == ["large.js.gz"]


def test_a_failed_step_shows_its_output_and_one_line(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(Path(sys.executable), ())
    code = "print('cause'); [print(n) for n in range(100)]; print('last'); raise SystemExit(3)"
    with pytest.raises(WebBuildError, match="npm ci failed with exit code 3"):
        node.run("npm ci", [sys.executable, "-c", code])
    shown = capsys.readouterr().err.splitlines()
    assert (shown[0], shown[-1]) == ("cause", "last")
    assert len(shown) < 40


def test_the_lock_file_has_hashes_and_no_addresses() -> None:
    path = Path(__file__).resolve().parents[3] / "web" / "package-lock.json"
    packages = json.loads(path.read_text())["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)
    assert not [name for name, package in packages.items() if "resolved" in package]


def test_the_lock_file_has_the_bundler_of_every_common_system() -> None:
    path = Path(__file__).resolve().parents[3] / "web" / "package-lock.json"
    packages = json.loads(path.read_text())["packages"]
    for system in ("darwin-arm64", "darwin-x64", "linux-arm64-gnu", "linux-x64-gnu", "win32-x64-msvc"):
        assert f"node_modules/@rolldown/binding-{system}" in packages
