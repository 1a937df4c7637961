"""Single downloads and previews of artifacts and checkpoint files."""

import base64
import hashlib
import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.acceptance.server.real_server import Answer, Server

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"pixels").decode()
LARGE = 9 * 1024 * 1024
JOB = f"""
import base64, pathlib, random
import anygpu
random.seed(7)
pathlib.Path("large.bin").write_bytes(random.randbytes({LARGE}))
pathlib.Path("empty.txt").write_bytes(b"")
pathlib.Path("plot.png").write_bytes(base64.b64decode("{PNG}"))
pathlib.Path("fake.png").write_text("<script>alert(1)</script>")
pathlib.Path("page.html").write_text("<script>alert(1)</script>")
pathlib.Path("long.csv").write_text("a,b\\n" + "1,ä\\n" * 100_000)
pathlib.Path("deep/er").mkdir(parents=True)
pathlib.Path('deep/er/w"ei\\u202ed; name.txt').write_text("text")
for path in sorted(pathlib.Path(".").rglob("*")):
    if path.is_file():
        anygpu.artifact(str(path))
pathlib.Path("ckpt").mkdir()
pathlib.Path("ckpt/state.json").write_text('{{"step": 1}}')
anygpu.checkpoint("ckpt/state.json", step=1, wait=True)
"""


@pytest.fixture(scope="module")
def job(server: Server) -> dict[str, Any]:
    ended = server.wait_ended(server.submit(code=JOB, name="files"), 60)
    assert ended["status"] == "completed", ended["failure"]
    return ended


def artifacts(server: Server, job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = server.ask("GET", f"/api/v1/training/{job['id']}/artifacts").json["artifacts"]
    return {each["name"]: each for each in found}


def get(server: Server, job: dict[str, Any], name: str, query: str = "", **headers: str) -> Answer:
    path = artifacts(server, job)[name]["download"]
    return server.ask(
        "GET", path + query, headers={key.replace("_", "-"): value for key, value in headers.items()}
    )


def chunk_files(server: Server, content_size: int) -> list[Path]:
    return [each for each in server.state.rglob("chunks/*") if each.stat().st_size == content_size]


def test_a_file_in_several_parts_is_one_download(server: Server, job: dict[str, Any]) -> None:
    entry = artifacts(server, job)["large.bin"]
    answer = server.ask("GET", entry["download"])
    assert answer.status == 200
    assert hashlib.sha256(answer.data).hexdigest() == entry["sha256"]
    assert answer.headers["content-length"] == str(LARGE)
    assert answer.headers["content-disposition"] == 'attachment; filename="large.bin"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    digest = base64.b64encode(bytes.fromhex(entry["sha256"])).decode()
    assert answer.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert answer.headers["etag"] == f'"{entry["sha256"]}"'


def test_a_range_across_parts_is_sent_alone(server: Server, job: dict[str, Any]) -> None:
    whole = get(server, job, "large.bin").data
    for header, start, end in (
        ("bytes=0-9", 0, 10),
        (f"bytes=8388600-{LARGE - 5}", 8388600, LARGE - 4),
        ("bytes=-7", LARGE - 7, LARGE),
        (f"bytes={LARGE - 3}-", LARGE - 3, LARGE),
    ):
        answer = get(server, job, "large.bin", Range=header)
        assert answer.status == 206, header
        assert answer.data == whole[start:end], header
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{LARGE}"
    assert get(server, job, "large.bin", Range=f"bytes={LARGE}-").status == 416
    assert get(server, job, "large.bin", Range="bytes=0-1", If_Range='"other"').status == 200


def test_a_file_that_the_client_has_is_not_sent_again(server: Server, job: dict[str, Any]) -> None:
    etag = get(server, job, "plot.png").headers["etag"]
    answer = get(server, job, "plot.png", If_None_Match=etag)
    assert (answer.status, answer.data) == (304, b"")


def test_an_empty_file_can_be_downloaded_and_shown(server: Server, job: dict[str, Any]) -> None:
    assert (get(server, job, "empty.txt").status, get(server, job, "empty.txt").data) == (200, b"")
    assert get(server, job, "empty.txt", "?preview=1").data == b""


def test_a_hostile_name_is_a_harmless_file_name(server: Server, job: dict[str, Any]) -> None:
    (name,) = [each for each in artifacts(server, job) if each.startswith("deep/")]
    answer = get(server, job, name)
    assert answer.data == b"text"
    assert answer.headers["content-disposition"] == 'attachment; filename="w_ei_d_ name.txt"'


def test_an_image_is_shown_as_an_image(server: Server, job: dict[str, Any]) -> None:
    answer = get(server, job, "plot.png", "?preview=1")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/png")
    assert answer.headers["content-disposition"] == "inline"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_only_claims_to_be_an_image_is_not_shown(server: Server, job: dict[str, Any]) -> None:
    answer = get(server, job, "fake.png", "?preview=1")
    assert (answer.status, answer.json["code"]) == (415, "no_preview")
    binary = get(server, job, "large.bin", "?preview=1")
    assert (binary.status, binary.json["code"]) == (415, "no_preview")


def test_a_page_is_shown_as_text(server: Server, job: dict[str, Any]) -> None:
    answer = get(server, job, "page.html", "?preview=1")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-preview-truncated"] == "false"


def test_a_long_table_is_cut_at_a_whole_character(server: Server, job: dict[str, Any]) -> None:
    answer = get(server, job, "long.csv", "?preview=1")
    assert answer.status == 200
    assert 256 * 1024 - 4 <= len(answer.data) <= 256 * 1024
    answer.data.decode()
    assert answer.headers["x-preview-truncated"] == "true"
    assert answer.headers["x-file-size"] == str(artifacts(server, job)["long.csv"]["size"])


def test_the_list_says_what_can_be_shown(server: Server, job: dict[str, Any]) -> None:
    kinds = {name: each["preview"] for name, each in artifacts(server, job).items()}
    assert (kinds["plot.png"], kinds["long.csv"], kinds["page.html"]) == ("image", "table", "text")
    assert kinds["large.bin"] is None


def test_a_file_of_a_checkpoint_can_be_downloaded(server: Server, job: dict[str, Any]) -> None:
    (saved,) = server.ask("GET", f"/api/v1/training/{job['id']}/checkpoints").json["checkpoints"]
    (file,) = saved["files"]
    answer = server.ask("GET", file["download"])
    assert answer.data == b'{"step": 1}'
    assert (saved["newest"], saved["inherited"], saved["resumed_attempts"]) == (True, False, [])
    missing = server.ask("GET", file["download"] + "x")
    assert (missing.status, missing.json["code"]) == (404, "not_found")
    unknown = server.ask("GET", f"/api/v1/training/{job['id']}/checkpoints/c9/files/{quote(file['path'])}")
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")


def test_a_viewer_may_download_and_a_stranger_may_not(server: Server, job: dict[str, Any]) -> None:
    path = artifacts(server, job)["plot.png"]["download"]
    viewer = server.new_token(name="reads", role="viewer")
    assert server.ask("GET", path, token=viewer).status == 200
    stranger = server.new_token(name="elsewhere", role="admin", organisation="other")
    assert server.ask("GET", path, token=stranger).status == 404
    assert server.ask("GET", path, token=None).status == 401


def test_an_unknown_artifact_is_not_found(server: Server, job: dict[str, Any]) -> None:
    answer = server.ask("GET", f"/api/v1/training/{job['id']}/artifacts/..%2F..%2Fsecret")
    assert (answer.status, answer.json["code"]) == (404, "not_found")


def test_damage_is_reported_before_the_first_byte(server: Server) -> None:
    code = "import anygpu, pathlib\npathlib.Path('m.bin').write_bytes(b'm' * 12345)\nanygpu.artifact('m.bin')"
    job = server.wait_ended(server.submit(code=code))
    (chunk,) = chunk_files(server, 12345)
    chunk.chmod(0o600)
    chunk.write_bytes(b"x" * 12345)
    damaged = get(server, job, "m.bin")
    assert (damaged.status, damaged.json["code"]) == (500, "blob_corrupt")
    chunk.unlink()
    missing = get(server, job, "m.bin")
    assert (missing.status, missing.json["code"]) == (404, "blob_missing")
    assert "m.bin" in missing.json["detail"]


def test_a_large_damaged_file_never_arrives_complete(server: Server) -> None:
    size = 5 * 1024 * 1024 + 11
    code = (
        f"import anygpu, pathlib\npathlib.Path('m.bin').write_bytes(b'm' * {size})\nanygpu.artifact('m.bin')"
    )
    job = server.wait_ended(server.submit(code=code))
    (chunk,) = chunk_files(server, size)
    chunk.chmod(0o600)
    chunk.write_bytes(b"x" * size)
    with pytest.raises(http.client.IncompleteRead):
        get(server, job, "m.bin")
    assert "Traceback" not in server.error_log
    assert "does not match its checksum" in server.error_log


def test_the_files_of_the_code_are_listed(server: Server, job: dict[str, Any]) -> None:
    path = f"/api/v1/training/{job['id']}"
    assert server.ask("GET", f"{path}/code").json == {"sha256": None, "count": 0, "size": 0, "files": []}
    assert job["code"]["kind"] == "inline"
    assert job["code"]["sha256"] == hashlib.sha256(JOB.encode()).hexdigest()
    text = b"print(1)"
    file = {"path": "train.py", "size": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    listed = json.dumps({"files": [file]}).encode()
    for content in (text, listed):
        sha256 = hashlib.sha256(content).hexdigest()
        assert server.ask("PUT", f"/api/v1/uploads/{sha256}", content).status == 201
    workdir = {"manifest": sha256, "snapshot": True}
    submitted = server.submit(script="train.py", workdir=workdir)
    answer = server.ask("GET", f"/api/v1/training/{submitted}/code").json
    assert answer == {"sha256": sha256, "count": 1, "size": len(text), "files": [{**file, "link": None}]}
    assert server.job(submitted)["code"] == {"kind": "snapshot", "sha256": sha256, "path": None}


def test_a_viewer_can_read_the_spec_as_text(server: Server, job: dict[str, Any]) -> None:
    viewer = server.new_token(name="reader", role="viewer")
    texts = server.ask("GET", f"/api/v1/training/{job['id']}/spec", token=viewer).json
    assert "name: files" in texts["yaml"]
    assert texts["cli"].startswith("anygpu run")
    assert "submit" in texts["python"]


def test_the_newest_events_can_be_read_first(server: Server, job: dict[str, Any]) -> None:
    path = f"/api/v1/training/{job['id']}/events"
    every = server.ask("GET", path).json
    assert every["total"] is None
    newest = server.ask("GET", f"{path}?before=9007199254740992&limit=3").json
    assert newest["events"] == every["events"][-3:]
    assert newest["total"] == len(every["events"])
    position = newest["events"][0]["position"]
    earlier = server.ask("GET", f"{path}?before={position}&limit=1000").json["events"]
    assert earlier == every["events"][:-3]
