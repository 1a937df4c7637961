"""Options of the Ray backend."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator

DAY_S = 86_400.0
DashboardUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(/[^\s?#]*)?$", max_length=500)]


class RayOptions(BaseModel):
    """Options of a Ray backend: one Ray cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: DashboardUrl = Field(
        description="URL of the cluster's dashboard, which serves the Jobs API, such as http://head:8265"
    )
    token: SecretStr | None = Field(
        None, description="token of a cluster with token authentication, sent as `Authorization: Bearer`"
    )
    headers: SecretStr | None = Field(
        None, description="further HTTP headers for a proxy, one per line, as `Name: value`"
    )
    verify_tls: bool = Field(True, description="whether the certificate of an https address is checked")
    ca_file: str = Field(
        "", description="file on the server with the certificates to trust; empty: those of the system"
    )
    price_microusd_per_hour: int = Field(
        0,
        ge=0,
        description="price of one GPU, or of a job without GPUs, for an hour in micro-dollars, for cost accounting",
    )
    gpu_prices: tuple[str, ...] = Field(
        (), description="prices that differ by GPU, as KIND=micro-dollars, such as A100=2500000"
    )
    cpus: float = Field(1, gt=0, description="CPUs to reserve for a job that does not set resources.cpus")
    python: str = Field("", description="Python for agents and jobs; empty: the first one found on the node")
    directory: str = Field(
        "", description="directory on the nodes for files of attempts; empty: ~/.anygpu/attempts"
    )
    stop_wait_s: float = Field(
        3,
        gt=0,
        description="seconds from SIGTERM to SIGKILL when Ray stops a job: RAY_JOB_STOP_WAIT_TIME_S of the cluster",
    )
    relay: Literal["", "directory", "storage"] = Field(
        "",
        description="relay for nodes that cannot connect to the server: directory or storage; empty: none",
    )
    lease_s: float = Field(
        DAY_S, ge=60, description="seconds that an agent keeps running without contact with the server"
    )

    @field_validator("address")
    @classmethod
    def _check_address(cls, address: str) -> str:
        if "@" in urlsplit(address).netloc:
            raise ValueError("the address contains a password; give it with the credential `headers`")
        return address.rstrip("/")

    @field_validator("gpu_prices")
    @classmethod
    def _check_prices(cls, prices: tuple[str, ...]) -> tuple[str, ...]:
        for price in prices:
            kind, equals, amount = price.partition("=")
            if not (kind.strip() and equals and amount.strip().isdecimal()):
                raise ValueError(
                    f"{price[:100]!r} is not a price; write KIND=micro-dollars, such as A100=2500000"
                )
        return prices

    @field_validator("token")
    @classmethod
    def _check_token(cls, token: SecretStr | None) -> SecretStr | None:
        text = token.get_secret_value().strip() if token else ""
        if not _is_header_text(text):
            raise ValueError("has characters that an HTTP header cannot contain")
        return SecretStr(text) if token else None

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: SecretStr | None) -> SecretStr | None:
        lines = headers.get_secret_value().splitlines() if headers else []
        if any(":" not in line for line in lines if line.strip()):
            raise ValueError("a line is not an HTTP header; write `Name: value`")
        if not all(map(_is_header_text, lines)):
            raise ValueError("has characters that an HTTP header cannot contain")
        return headers

    def gpu_price_microusd(self, kind: str) -> int:
        """Return the price of one GPU of this kind for an hour."""
        for price in self.gpu_prices:
            wanted, _, amount = price.partition("=")
            if _plain(wanted) == _plain(kind):
                return int(amount)
        return self.price_microusd_per_hour

    def job_price_microusd(self, kind: str, gpus: int) -> int:
        """Return the price of an hour of a job with this number of GPUs, which may be 0, on a node with this kind."""
        return self.gpu_price_microusd(kind) * gpus if gpus else self.price_microusd_per_hour

    def http_headers(self) -> dict[str, str]:
        """Return the headers of every request, with the credentials."""
        lines = self.headers.get_secret_value().splitlines() if self.headers else []
        pairs = [line.partition(":") for line in lines if line.strip()]
        headers = {name.strip(): value.strip() for name, _, value in pairs}
        if self.token and self.token.get_secret_value():
            headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"
        return headers


def _is_header_text(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _plain(kind: str) -> str:
    return "".join(character for character in kind.lower() if character.isalnum())
