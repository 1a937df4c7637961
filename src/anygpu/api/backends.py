"""API models for backends: list them, configure them, check them."""

from typing import Any

from pydantic import Field

from anygpu.api.base import TIME, ApiModel, RequestModel


class GpuOffer(ApiModel):
    """An offer with a GPU."""

    name: str = Field(examples=["gpu_1x_a10"])
    region: str = Field(examples=["us-west-1"])
    gpu: str = Field(examples=["A10"])
    gpus: int = Field(examples=[1])
    gpu_memory_gib: float = Field(examples=[24])
    interruptible: bool = Field(examples=[False])
    price_microusd_per_hour: int = Field(examples=[750_000])


class BackendCheckReport(ApiModel):
    """Whether the credentials of a backend work, the limits of the account, and the backend's offers."""

    name: str = Field(examples=["lab"])
    valid: bool = Field(examples=[True])
    why: str = Field(examples=[""])
    quota: str = Field(examples=[""])
    balance_microusd: int | None = Field(examples=[None])
    offers: int = Field(examples=[12])
    refused: int = Field(examples=[0])
    refused_why: str = Field(examples=[""])
    cheapest_gpu: GpuOffer | None


class BackendProblem(ApiModel):
    """Why the last request of a kind to a backend failed, and when."""

    request: str = Field(examples=["offers"], description="`account`, `offers` or `launch`.")
    message: str = Field(examples=["the API key is not valid"])
    at: str = Field(examples=[TIME])


class BackendHealth(ApiModel):
    """What the server that answers has learned about a backend from its own requests since it started.

    A changed configuration begins with an empty one. A later success of the same kind of request removes a problem.
    """

    answered_at: str | None = Field(
        examples=[TIME], description="When a request to the backend last succeeded."
    )
    checked_at: str | None = Field(examples=[TIME])
    check: BackendCheckReport | None = Field(description="The result of the last check.")
    problems: list[BackendProblem]


class BackendDetails(ApiModel):
    """A configured backend.

    `credentials` says where its credentials come from: the vault (stored encrypted), the settings file, the server's
    environment (`ambient`), or nowhere (`none`).
    """

    name: str = Field(examples=["lab"])
    kind: str = Field(examples=["ssh"])
    source: str = Field(examples=["profile"])
    options: dict[str, Any] = Field(examples=[{"max_machines": 2}])
    credentials: str = Field(examples=["vault"])
    credential_names: list[str] = Field(examples=[["api_key"]])
    state: str = Field(examples=["open"])
    reason: str = Field(examples=[""])
    person: str | None = Field(examples=["me"])
    updated_at: str | None = Field(examples=[TIME])
    health: BackendHealth


class BackendList(ApiModel):
    """Backends, sorted by name. `allow_paid`: jobs may use paid machines although they do not ask for it."""

    backends: list[BackendDetails]
    allow_paid: bool = Field(default=False, examples=[False])


class BackendRequest(RequestModel):
    """A backend to configure. With `replace`, a credential that is left out is kept, and null removes one."""

    name: str = Field(max_length=200, examples=["lab"])
    kind: str = Field(max_length=200, examples=["ssh"])
    options: dict[str, Any] = Field(default_factory=dict, examples=[{}])
    credentials: dict[str, str | None] = Field(default_factory=dict, examples=[{}])
    replace: bool = Field(default=False, examples=[False])


class BackendOption(ApiModel):
    """An option of a kind of backend."""

    name: str = Field(examples=["api_key"])
    type: str = Field(examples=["a credential"])
    default: Any = Field(examples=[None])
    required: bool = Field(examples=[False])
    secret: bool = Field(examples=[True])
    about: str = Field(examples=["key of the API"])
    choices: list[str] = Field(
        default=[], examples=[[]], description="The possible values; empty if every value is possible."
    )


class BackendKindDetails(ApiModel):
    """A kind of backend and its options."""

    name: str = Field(examples=["lambda"])
    about: str = Field(examples=["Machines of Lambda"])
    options: list[BackendOption]


class BackendKindList(ApiModel):
    """Kinds of backends, sorted by name."""

    kinds: list[BackendKindDetails]


class RotationReport(ApiModel):
    """The numbers of credentials and secrets that were encrypted again, and that could not be decrypted."""

    sealed: int = Field(examples=[3])
    unopenable: int = Field(examples=[0])


class RemovedBackend(ApiModel):
    """A removed backend, and the jobs that still had machines there."""

    name: str = Field(examples=["lab"])
    removed: bool = Field(examples=[True])
    jobs: list[str] = Field(examples=[[]])
