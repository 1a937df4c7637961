"""The order in which agents try the servers."""

from collections import Counter

from anygpu.control.agents.addresses import order_for_attempt

URLS = ["http://a", "http://b", "http://c"]


def test_the_order_of_an_attempt_never_changes() -> None:
    assert order_for_attempt(URLS, "job", 1) == order_for_attempt([*reversed(URLS), "http://a"], "job", 1)


def test_attempts_are_spread_over_the_servers() -> None:
    first = Counter(order_for_attempt(URLS, f"job{number}", 1)[0] for number in range(300))
    assert min(first[url] for url in URLS) > 60


def test_without_a_server_the_others_keep_their_order() -> None:
    for number in range(20):
        order = order_for_attempt(URLS, f"job{number}", 1)
        assert order_for_attempt(URLS[1:], f"job{number}", 1) == [url for url in order if url != "http://a"]
