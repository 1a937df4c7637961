"""The address of a broker, and how to connect to it. Only Redis and Valkey are supported."""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from anygpu.errors import BackendNotOpen, BackendUnavailable

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
DEFAULT_PORT = 6379
_DATABASE = re.compile(r"/(\d{1,4})?")


class BrokerUnknown(BackendNotOpen):
    """The broker did not confirm a message. No action is needed: the message is looked for, and sent again."""

    # Not a LaunchError: the message may have arrived, so the attempt may run.
    code = "broker_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The address of a Redis or Valkey server, and the credentials for it."""

    host: str
    port: int = DEFAULT_PORT
    database: int = 0
    tls: bool = False
    username: str = ""
    password: str = ""
    ca_file: str = ""

    @property
    def display(self) -> str:
        """The URL without credentials, for messages and files."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.database}"

    @property
    def url(self) -> str:
        """The URL with credentials. Never print it."""
        scheme, _, rest = self.display.partition("://")
        if not (self.username or self.password):
            return self.display
        return f"{scheme}://{quote(self.username, safe='')}:{quote(self.password, safe='')}@{rest}"

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def celery_settings(self) -> dict[str, Any]:
        """Return the settings with which Celery connects to the broker."""
        # Without the last two, Celery would prefer the variable CELERY_BROKER_URL, which may lack the password.
        settings: dict[str, Any] = dict.fromkeys(
            ("broker_url", "broker_read_url", "broker_write_url"), self.url
        )
        if self.tls:
            settings["broker_use_ssl"] = {
                "ssl_cert_reqs": ssl.CERT_REQUIRED,
                **({"ssl_ca_certs": self.ca_file} if self.ca_file else {}),
            }
        return settings

    def _client_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "db": self.database,
            "username": self.username or None,
            "password": self.password or None,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_timeout": ANSWER_TIMEOUT_S,
        }
        if self.tls:
            options |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_ca_certs": self.ca_file or None}
        return options

    def client(self) -> Any:
        """Return a client (redis.Redis) for threads."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis(**self._client_options(), retry=Retry(NoBackoff(), 1))

    def async_client(self) -> Any:
        """Return a client (redis.asyncio.Redis) for the event loop."""
        import redis.asyncio
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        return redis.asyncio.Redis(**self._client_options(), retry=Retry(NoBackoff(), 1))


def parse_broker(url: str, *, username: str = "", password: str = "", ca_file: str = "") -> BrokerAddress:
    """Parse a broker URL. Raise ValueError, with a message for the user, if it is not one that can be used."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss"):
        raise ValueError(_scheme_problem(parts.scheme if "://" in url else ""))
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise ValueError(
            "the port of the broker is not a number from 1 to 65535; if the URL has a password, write its special "
            "characters as in URLs, such as %2F for /"
        ) from None
    database = _DATABASE.fullmatch(parts.path or "/")
    if not parts.hostname or database is None or parts.query or parts.fragment:
        raise ValueError("the broker is not of the form redis://host:6379/0 or rediss://host:6379/0")
    address = BrokerAddress(
        host=parts.hostname,
        port=port,
        database=int(database[1] or 0),
        tls=parts.scheme == "rediss",
        username=username or unquote(parts.username or ""),
        password=password or unquote(parts.password or ""),
    )
    if ca_file and not address.tls:
        raise ValueError("a CA file is used only with TLS; write rediss:// instead of redis://")
    return replace(address, ca_file=ca_file)


def _scheme_problem(scheme: str) -> str:
    if scheme in ("amqp", "amqps", "pyamqp"):
        return (
            "RabbitMQ is not supported: workers keep their reports in the broker, which needs Redis or Valkey. "
            "Use redis://host:6379/0 or rediss://host:6379/0"
        )
    if not scheme:
        return "the scheme is missing; write redis://host:6379/0, or rediss://host:6379/0 for TLS"
    return (
        f"a broker of the kind {scheme[:20]!r} is not supported; use Redis or Valkey, such as redis://host:6379/0, "
        "or rediss://host:6379/0 for TLS"
    )


@contextmanager
def broker_errors(address: BrokerAddress) -> Iterator[None]:
    """Translate errors of the Redis client to BackendUnavailable with the broker's address and what to do."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise BackendUnavailable(describe_broker_error(address, error)) from error


def describe_broker_error(address: BrokerAddress, error: BaseException) -> str:
    """Return a sentence that says what is wrong with the broker, and what to do."""
    from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

    text = (str(error) or type(error).__name__).rstrip(".")
    where = f"The broker {address.display}"
    if isinstance(error, NoPermissionError) or "NOPERM" in text:
        return (
            f"{where} does not allow a command: {text}. Give the user of the broker all keys (~*), all channels "
            "(&*) and all commands except dangerous ones."
        )
    if isinstance(error, AuthenticationError) or "NOAUTH" in text or "WRONGPASS" in text:
        if not address.password:
            return (
                f"{where} requires a password, and none is given. Give it to a backend with `--credential password`, "
                "and to a worker with `--password-file`."
            )
        return f"{where} refused the login: {text}. Check the user name and the password."
    if "CERTIFICATE" in text.upper() or "SSL" in text.upper():
        return f"{where} could not be reached with TLS: {text}. Check the certificate, the host name and the CA file."
    if isinstance(error, ResponseError):
        return f"{where} refused a command: {text}. Check its log and its free memory."
    return f"{where} does not answer: {text}. Check that it runs, its address, and the network."
