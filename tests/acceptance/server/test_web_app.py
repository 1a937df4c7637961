"""How the server sends the web app: pages, assets, headers, and where a login link leads."""

import gzip
import re
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from scripts import build_web
from tests.acceptance.server.real_server import Answer, Server

from anygpu.server.app import describe_api
from anygpu.server.http import web_app

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PAGES = ("/jobs", "/jobs/0198-x?tab=logs", "/new", "/compare", "/queue", "/costs", "/machines", "/accuracy")


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build_web.ensure_built()


def get(server: Server, path: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.ask("GET", path, token=None, headers={**BROWSER, **named})


def assets(server: Server) -> list[str]:
    return re.findall(r'(?:src|href)="(/assets/[^"]+)"', get(server, "/").data.decode())


@pytest.mark.parametrize("path", ["/", *PAGES])
def test_every_page_of_the_app_answers_without_a_login(server: Server, path: str) -> None:
    answer = get(server, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert b'<div id="root">' in answer.data


def test_the_policy_allows_neither_inline_scripts_nor_other_origins(server: Server) -> None:
    first, second = get(server, "/jobs"), get(server, "/jobs")
    policy = dict(part.strip().split(" ", 1) for part in first.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["connect-src"]) == (
        "'none'",
        "'self'",
        "'self'",
    )
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in first.headers["content-security-policy"]
    nonce = policy["style-src"].removeprefix("'self' 'nonce-").removesuffix("'")
    assert f'<meta name="csp-nonce" content="{nonce}"'.encode() in first.data
    assert nonce not in second.headers["content-security-policy"]
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["referrer-policy"] == "same-origin"


def test_an_unchanged_page_is_not_sent_again(server: Server) -> None:
    etag = get(server, "/").headers["etag"]
    again = get(server, "/jobs", If_None_Match=etag)
    assert (again.status, again.data) == (304, b"")
    assert "content-security-policy" not in again.headers  # it would have another nonce than the stored page


def test_assets_are_compressed_and_stored_forever(server: Server) -> None:
    for path in assets(server):
        plain = get(server, path)
        small = get(server, path, Accept_Encoding="gzip, deflate, br")
        assert plain.status == small.status == 200
        assert small.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert small.headers["content-type"] == plain.headers["content-type"]
        if "content-encoding" in small.headers:
            assert gzip.decompress(small.data) == plain.data
    assert any(path.endswith(".js") for path in assets(server))


def test_head_answers_like_get_without_a_body(server: Server) -> None:
    for path in ("/jobs", assets(server)[0]):
        headed = server.ask("HEAD", path, token=None)
        assert (headed.status, headed.data) == (200, b"")
        assert headed.headers["content-type"] == get(server, path).headers["content-type"]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../index.html",
        "..%2findex.html",
        "%2e%2e/%2e%2e/app.py",
        "..%5cindex.html",
        ".hidden",
        "no.js",
        "",
    ],
)
def test_no_other_file_can_be_read(server: Server, name: str) -> None:
    assert get(server, f"/assets/{name}").status == 404


def test_programs_get_json_from_the_same_address(server: Server) -> None:
    assert server.ask("GET", "/").json["jobs"] == "/api/v1/training"
    both = server.ask("GET", "/", headers={"Accept": "application/json, text/html"})
    assert both.json["who"] == "/api/v1/whoami"
    assert server.ask("GET", "/", token=None).status == 401
    assert get(server, "/api/v1/training").status == 401


@pytest.mark.parametrize(
    ("wanted", "opened"),
    [
        ("/jobs/0198-x?tab=logs", "/jobs/0198-x?tab=logs"),
        ("/new", "/new"),
        ("", "/"),
        ("//other.example/jobs", "/"),
        ("https://other.example/jobs", "/"),
        ("/\\other.example/jobs", "/"),
        ("/jobs\n/x", "/"),
        ("jobs", "/"),
        ("/api/v1/whoami", "/"),
    ],
)
def test_a_login_link_opens_only_pages_of_the_app(server: Server, wanted: str, opened: str) -> None:
    link = server.ask("POST", "/api/v1/login/links").json["url"].removeprefix(server.url)
    assert get(server, f"{link}?next={quote(wanted)}").headers["location"] == opened


def test_a_browser_with_a_used_link_gets_a_page_that_says_what_to_do(server: Server) -> None:
    link = server.ask("POST", "/api/v1/login/links", {"expires_s": 300}).json["url"].removeprefix(server.url)
    assert get(server, link).status == 303
    again = get(server, link)
    assert again.status == 401
    assert b"anygpu open" in again.data
    assert "script-src 'self'" in again.headers["content-security-policy"]
    assert server.ask("GET", link, token=None).json["code"] == "unauthorized"


def test_every_role_may_log_in_with_a_browser(server: Server) -> None:
    viewer = server.new_token(role="viewer")
    link = server.ask("POST", "/api/v1/login/links", token=viewer).json["url"].removeprefix(server.url)
    cookie = get(server, link).headers["set-cookie"].split(";")[0]
    headers = {"Cookie": cookie, "Origin": server.url}
    assert server.ask("GET", "/api/v1/whoami", token=None, headers=headers).json["role"] == "viewer"
    refused = server.ask("POST", "/api/v1/training", {"command": "true"}, token=None, headers=headers)
    assert refused.status == 403
    assert server.ask("POST", "/api/v1/logout", token=None, headers=headers).status == 204


async def test_a_checkout_without_the_built_app_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "STATIC", tmp_path)
    transport = httpx.ASGITransport(app=describe_api("0"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/jobs")
    assert answer.status_code == 503
    assert "make web" in answer.text
