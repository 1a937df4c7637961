"""What is tried again, and what is not."""

import pytest

from anygpu.errors import ServerUnreachable
from anygpu.sdk.http import Endpoint, Http


class Found:
    """Says where the server is, as often as told; from then on there is none."""

    def __init__(self, *urls: str) -> None:
        self.urls = [*urls]
        self.asked = 0

    def __call__(self) -> Endpoint:
        self.asked += 1
        if not self.urls:
            raise ServerUnreachable("No anygpu server runs on this machine.")
        return Endpoint(self.urls.pop(0), "token")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("anygpu.sdk.http.time.sleep", waited.append)
    return waited


def test_where_no_server_runs_nobody_waits_for_one(waits: list[float]) -> None:
    locate = Found()
    with pytest.raises(ServerUnreachable):
        Http(locate).request("GET", "/api/v1/training")
    assert (locate.asked, waits) == (1, [])


def test_a_server_that_was_there_is_looked_for_again(waits: list[float]) -> None:
    locate = Found("no address")
    with pytest.raises(ServerUnreachable):
        Http(locate).request("GET", "/api/v1/training")
    assert (locate.asked, len(waits)) == (5, 4)
