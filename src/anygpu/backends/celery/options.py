"""Options of the Celery backend."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator

from anygpu.backends.celery.broker import BrokerAddress, parse_broker
from anygpu.backends.celery.messages import DEFAULT_QUEUE, QueueName

GpuPrice = Annotated[str, StringConstraints(pattern=r"^[^=]{1,100}=\d{1,12}$")]


class CeleryOptions(BaseModel):
    """Options of a Celery backend: the broker, the queue of the workers, and what an hour on them costs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    broker: str = Field(
        description="the Redis or Valkey server that the workers use: redis://host:6379/0, or rediss:// for TLS"
    )
    username: str = Field("", description="user of the broker; empty: the default user")
    password: SecretStr = Field(SecretStr(""), description="password of the broker")
    ca_file: str = Field(
        "", description="file on the server with the CA certificate of the broker; empty: the system's CAs"
    )
    queue: QueueName = Field(DEFAULT_QUEUE, description="queue of the workers, as in `anygpu worker --queue`")
    price_microusd_per_hour: int = Field(
        0, ge=0, description="price of one hour on a worker in micro-dollars, for cost accounting"
    )
    gpu_prices: tuple[GpuPrice, ...] = Field(
        (),
        description="other prices for workers with certain GPUs, as KIND=MICRODOLLARS; KIND is a part of the GPU's "
        "name, and the first that matches counts",
    )
    relay: Literal["", "directory", "storage"] = Field(
        "",
        description="how agents that cannot connect to the server reach it: directory (relay.directory), storage (the "
        "server's bucket), or empty: they connect",
    )
    lease_s: float = Field(
        0,
        ge=0,
        description="seconds that an agent keeps running without contact with the server; 0: its setting",
    )

    @field_validator("broker")
    @classmethod
    def _check_broker(cls, url: str) -> str:
        if parse_broker(url).password:
            raise ValueError(
                "contains a password; give it as the credential `password` instead (--credential password=-)"
            )
        return url

    @field_validator("ca_file")
    @classmethod
    def _check_ca_file(cls, path: str) -> str:
        return path.strip()

    @property
    def address(self) -> BrokerAddress:
        return parse_broker(
            self.broker,
            username=self.username,
            password=self.password.get_secret_value(),
            ca_file=self.ca_file,
        )

    def price_of(self, gpu_kind: str) -> int:
        """Return the price of one hour on a worker with these GPUs, in micro-dollars."""
        for entry in self.gpu_prices:
            kind, _, price = entry.rpartition("=")
            if kind.strip().lower() in gpu_kind.lower():
                return int(price)
        return self.price_microusd_per_hour
