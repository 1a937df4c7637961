"""Broker URLs and options."""

import pytest
from redis.exceptions import AuthenticationError

from anygpu.backends.celery.backend import Options
from anygpu.backends.celery.broker import describe_broker_error, parse_broker
from anygpu.backends.options import parse_options
from anygpu.errors import InvalidSpec


def test_a_url_with_everything() -> None:
    address = parse_broker("rediss://me:p%40ss@broker.example:6380/3", ca_file="/etc/ca.pem")
    assert (address.host, address.port, address.database, address.tls) == ("broker.example", 6380, 3, True)
    assert (address.username, address.password) == ("me", "p@ss")
    assert address.display == "rediss://broker.example:6380/3"
    assert address.url == "rediss://me:p%40ss@broker.example:6380/3"
    assert address.celery_settings()["broker_use_ssl"]["ssl_ca_certs"] == "/etc/ca.pem"
    assert "p@ss" not in address.display


def test_defaults() -> None:
    address = parse_broker("redis://[::1]")
    assert (address.port, address.database, address.display) == (6379, 0, "redis://[::1]:6379/0")
    assert address.is_loopback
    assert not address.celery_settings().get("broker_use_ssl")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("amqp://guest@host//", "RabbitMQ is not supported"),
        ("sqs://", "'sqs' is not supported"),
        ("redis+sentinel://x", "is not supported"),
        ("localhost:6379", "the scheme is missing; write redis://host"),
        ("127.0.0.1:6379", "the scheme is missing"),
        ("redis://", "redis://host:6379/0"),
        ("redis://host/name", "redis://host:6379/0"),
        ("redis://host:99999", "not a number from 1 to 65535"),
        ("redis://host/0?ssl=1", "redis://host:6379/0"),
    ],
)
def test_urls_that_cannot_be_used_say_why(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("?", r"\?")):
        parse_broker(url)


def test_a_missing_password_is_told_from_a_wrong_one() -> None:
    refusal = AuthenticationError("HELLO must be called with the client already authenticated")
    missing = describe_broker_error(parse_broker("redis://host"), refusal)
    assert "requires a password, and none is given" in missing
    assert "HELLO" not in missing
    wrong = describe_broker_error(parse_broker("redis://:x@host"), AuthenticationError("invalid password"))
    assert "refused the login: invalid password. Check" in wrong


def test_a_password_belongs_into_the_credentials() -> None:
    with pytest.raises(InvalidSpec, match="--credential password=-"):
        parse_options(Options, {"broker": "redis://:secret@host"}, {})
    parsed = parse_options(Options, {"broker": "redis://host"}, {"password": "secret"})
    assert isinstance(parsed.options, Options)
    assert parsed.options.address.password == "secret"
    assert "secret" not in repr(parsed.options)
    assert parsed.stored == {"broker": "redis://host"}


def test_prices_of_gpus() -> None:
    given = {"broker": "redis://host", "price_microusd_per_hour": 5, "gpu_prices": "a100=15, T4 =2"}
    options = parse_options(Options, given, {}).options
    assert isinstance(options, Options)
    kinds = ("NVIDIA A100-SXM4-80GB", "Tesla T4", "RTX 4090", "")
    assert [options.price_of(kind) for kind in kinds] == [15, 2, 5, 5]
    with pytest.raises(InvalidSpec, match="gpu_prices"):
        parse_options(Options, {"broker": "redis://host", "gpu_prices": "A100"}, {})
