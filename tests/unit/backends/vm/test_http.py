"""The edge the small providers share."""

import httpx
import pytest
from pydantic import SecretStr
from tests.unit.backends.clouds.fake_api import FarEnd

from anygpu.backends.vm.http import VendorClient, VendorInfo, parse_gpus, unix_ms
from anygpu.backends.vm.provider import OutcomeUnknown, ResourceNotFound
from anygpu.errors import BackendUnavailable, LaunchError, LaunchRefused, NoCapacity, RateLimited

VENDOR = VendorInfo(name="Acme", base_url="https://acme.test", variable="ACME_KEY", no_capacity=("sold out",))
SECRET = "k-123456789"


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def edge(answers: dict[str, object], sleep: Sleeps | None = None) -> tuple[VendorClient, FarEnd]:
    far = FarEnd(answers)
    waits = Sleeps() if sleep is None else sleep
    return VendorClient(VENDOR, key=SecretStr(SECRET), transport=far.transport, sleep=waits), far


async def test_a_read_is_retried_until_the_provider_answers() -> None:
    sleeps = Sleeps()
    http, far = edge({"GET /a": [(503, None), httpx.ReadTimeout("slow"), (200, {"data": 1})]}, sleeps)
    assert await http.get("/a") == {"data": 1}
    assert (len(far.asked), sleeps) == (3, [0.5, 1.0])


async def test_a_read_without_an_answer_raises_backend_unavailable() -> None:
    http, far = edge({"GET /a": (502, None)})
    with pytest.raises(BackendUnavailable, match="502"):
        await http.get("/a")
    assert len(far.asked) == 3


async def test_a_read_waits_for_retry_after_up_to_a_maximum() -> None:
    sleeps = Sleeps()
    slow = httpx.Response(429, headers={"Retry-After": "3"}, json={})
    never = httpx.Response(429, headers={"Retry-After": "86400"}, json={})
    given = iter([slow, never, never])
    http = VendorClient(
        VENDOR, key=SecretStr(SECRET), transport=httpx.MockTransport(lambda _: next(given)), sleep=sleeps
    )
    with pytest.raises(RateLimited):
        await http.get("/a")
    assert sleeps == [3.0, 10.0]


@pytest.mark.parametrize(
    "answer", [(500, None), (504, {"error": "gateway"}), httpx.ReadTimeout("slow"), httpx.ReadError("cut")]
)
async def test_a_write_without_an_answer_is_sent_once_and_raises_outcome_unknown(answer: object) -> None:
    http, far = edge({"POST /a": answer})
    with pytest.raises(OutcomeUnknown) as raised:
        await http.post("/a", {})
    assert len(far.asked) == 1
    assert not isinstance(raised.value, LaunchError), "a LaunchError would say that nothing was launched"


async def test_a_rate_limited_write_is_retried() -> None:
    sleeps = Sleeps()
    http, far = edge(
        {"POST /a": [(429, {}), (200, {"id": 1})], "DELETE /a/1": [(429, {}), (200, {})]}, sleeps
    )
    assert await http.post("/a", {}) == {"id": 1}
    await http.delete("/a/1")
    assert (len(far.asked), sleeps) == (4, [0.5, 0.5])


async def test_a_rate_limited_launch_is_not_retried() -> None:
    http, far = edge({"POST /a": (429, {})})
    with pytest.raises(RateLimited):
        await http.post("/a", {}, patient=False)
    assert len(far.asked) == 1


async def test_a_write_that_was_not_sent_raises_backend_unavailable() -> None:
    http, _ = edge({"POST /a": httpx.ConnectError("refused")})
    with pytest.raises(BackendUnavailable, match="Acme cannot be reached"):
        await http.post("/a", {})


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_where_the_key_comes_from(status: int) -> None:
    http, _ = edge({"GET /a": (status, {"error": {"code": "bad", "message": "no such key"}})})
    with pytest.raises(LaunchRefused, match=r"no such key.*ACME_KEY"):
        await http.get("/a")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "x/quota", "message": "Quota exceeded", "suggestion": "Ask for more"}},
        {"error": "Quota exceeded"},
        {"code": "FORBIDDEN", "message": "Quota exceeded"},
        {"title": "Bad Request", "status": 400, "detail": "Quota exceeded", "errors": ["gpu: too many"]},
    ],
)
async def test_an_error_quotes_the_vendors_message_in_any_format(body: object) -> None:
    http, _ = edge({"POST /a": (400, body)})
    with pytest.raises(
        LaunchRefused, match="Acme answered the request POST /a with HTTP status 400: Quota exceeded"
    ):
        await http.post("/a", {})


async def test_capacity_errors_are_told_apart_from_refusals() -> None:
    http, _ = edge({"POST /a": (400, {"error": "H100 is Sold Out here"})})
    with pytest.raises(NoCapacity, match="H100 is Sold Out here"):
        await http.post("/a", {})


async def test_deleting_a_missing_resource_succeeds() -> None:
    http, far = edge({"DELETE /a/1": (404, {"error": "gone"}), "POST /a": (404, {"error": "gone"})})
    await http.delete("/a/1")
    with pytest.raises(ResourceNotFound):
        await http.post("/a", {})
    assert far.lines() == ["DELETE /a/1", "POST /a"]


async def test_the_key_is_sent_and_appears_in_no_message() -> None:
    http, far = edge({"GET /a": (400, {"error": f"{SECRET} is not a key"})})
    with pytest.raises(LaunchRefused) as raised:
        await http.get("/a")
    assert far.asked[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in f"{raised.value!r} {raised.value} {raised.value.details}"


async def test_without_a_key_nothing_is_sent_and_the_variable_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ACME_KEY", raising=False)
    far = FarEnd({"GET /a": (200, {})})
    with pytest.raises(LaunchRefused, match="the environment variable ACME_KEY"):
        await VendorClient(VENDOR, transport=far.transport).get("/a")
    assert far.asked == []


async def test_an_empty_key_is_not_replaced_by_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "ambient")
    far = FarEnd({"GET /a": (200, {})})
    with pytest.raises(LaunchRefused):
        await VendorClient(VENDOR, key=SecretStr(""), transport=far.transport).get("/a")
    assert far.asked == []


async def test_the_environments_key_is_used_when_none_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "ambient")
    far = FarEnd({"GET /acme/a": (200, {})})
    await VendorClient(VENDOR, transport=far.transport, endpoint="http://127.0.0.1:9/acme").get("/a")
    assert far.asked[0].headers["Authorization"] == "Bearer ambient"
    assert str(far.asked[0].url) == "http://127.0.0.1:9/acme/a"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("8x A100 (80 GB SXM4)", (8, "A100", 80.0)),
        ("H100 (80 GB SXM5)", (1, "H100", 80.0)),
        ("16 vCPU x86 Server", (0, "", 0)),
    ],
)
def test_gpus_are_read_from_a_description(text: str, read: tuple[int, str, float]) -> None:
    assert parse_gpus(text) == read


def test_a_time_without_a_zone_is_utc() -> None:
    assert unix_ms("2025-05-24T01:17:09.000000") == unix_ms("2025-05-24T01:17:09Z") == 1748049429000
    assert unix_ms(None) is None
