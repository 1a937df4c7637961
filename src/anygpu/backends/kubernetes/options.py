"""Options of the Kubernetes backend."""

import re
import ssl
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from anygpu.backends.options import Interconnect, interconnect_field

DAY_S = 86_400.0
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NAMESPACE_FIELDS = ("organisation", "project")
DnsName = Annotated[str, StringConstraints(pattern=rf"^({LABEL}(\.{LABEL})*)?$", max_length=253)]
Toleration = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9./_-]+(=[A-Za-z0-9._-]*)?(:(NoSchedule|NoExecute|PreferNoSchedule))?$",
        max_length=400,
    ),
]
NodeLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9./_-]+=[A-Za-z0-9._-]*$", max_length=400)]
NamedPrice = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*=[0-9]{1,15}$", max_length=100)
]
ResourceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)]


class KubernetesOptions(BaseModel):
    """Options of a Kubernetes backend: how to reach the cluster, and how its pods are configured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: SecretStr = Field(
        SecretStr(""), description="content of a kubeconfig file; it may not name files or commands"
    )
    kubeconfig_path: str = Field(
        "",
        description="kubeconfig file on the server; empty: the pod's service account, $KUBECONFIG or ~/.kube/config",
    )
    context: str = Field("", description="context of the kubeconfig; empty: its current context")
    api_url: str = Field("", description="URL of the API server, with `token`, instead of a kubeconfig")
    token: SecretStr = Field(SecretStr(""), description="bearer token for `api_url`")
    certificate_authority: str = Field(
        "", description="certificate (PEM) of the API server at `api_url`; empty: the system's"
    )
    namespace: str = Field(
        "",
        description="namespace of the pods; may contain {project} and {organisation}; empty: the one of the context",
    )
    image: str = Field(
        "python:3.12-slim",
        min_length=1,
        description="image for jobs without `image`; needs Python 3.9 and a shell",
    )
    image_pull_secrets: tuple[DnsName, ...] = Field(
        (), description="secrets of the namespace with which images are pulled"
    )
    gpu_resource: ResourceName = Field(
        "nvidia.com/gpu", description="resource name of the GPUs: nvidia.com/gpu, amd.com/gpu, ..."
    )
    node_selector: tuple[NodeLabel, ...] = Field((), description="labels that a node must have, as key=value")
    tolerations: tuple[Toleration, ...] = Field(
        (), description="taints that pods tolerate, as key, key=value or key=value:effect"
    )
    priority_class: DnsName = Field("", description="priority class of the pods")
    service_account: DnsName = Field("", description="service account of the pods; empty: none is mounted")
    run_as_user: int | None = Field(
        None, ge=1, description="user id of the pods; empty: the user of the image"
    )
    cache_claim: DnsName = Field(
        "", description="PersistentVolumeClaim for downloaded files and environments, shared by all pods"
    )
    shared_memory_gib: float = Field(
        8,
        gt=0,
        description="limit of /dev/shm in GiB, which data loaders use; it counts as memory of the pod",
    )
    cpus: float = Field(1, gt=0, description="CPUs that a job without `cpus` requests")
    memory_gib: float = Field(
        0, ge=0, description="memory in GiB that a job without `memory` requests; 0: no request"
    )
    max_run_s: float = Field(
        7 * DAY_S,
        ge=60,
        description="longest run of one attempt; then the job moves to another pod at a checkpoint",
    )
    grace_s: float = Field(
        120,
        ge=5,
        description="seconds that a pod gets to save when it is deleted or evicted; spot nodes give less",
    )
    start_limit_s: float = Field(
        300,
        ge=10,
        description="seconds until a pod that cannot be scheduled, or whose image cannot be pulled, fails; "
        "`autoscale_wait_s` is added while no node has the pod. A slow start, such as the pull of a large image, "
        "may take `control.claim_limit_s` longer",
    )
    autoscale_wait_s: float = Field(
        0,
        ge=0,
        description="seconds in which an autoscaler adds a node of a known kind; 0: jobs wait for a free node",
    )
    keep_s: float = Field(
        3_600, ge=60, description="seconds until Kubernetes removes a Job that the server has not removed"
    )
    interconnect: Interconnect = interconnect_field()
    price_microusd_per_hour: int = Field(
        0,
        ge=0,
        description="price of an hour of a whole node in micro-dollars, for cost accounting; a pod costs its share of "
        "the node by GPUs, and one without GPUs by CPUs",
    )
    prices_microusd_per_hour: tuple[NamedPrice, ...] = Field(
        (),
        description="prices of whole nodes by GPU model or instance type, as name=price; they take precedence",
    )
    relay: Literal["", "storage"] = Field(
        "",
        description="how agents reach a server to which pods have no route: through the server's bucket (storage); "
        "empty: pods have a route",
    )
    lease_s: float = Field(
        DAY_S, ge=60, description="seconds that an agent keeps running without contact with the server"
    )

    @field_validator("namespace")
    @classmethod
    def _check_namespace(cls, value: str) -> str:
        fields = re.findall(r"\{([^}]*)\}", value)
        unknown = [field for field in fields if field not in NAMESPACE_FIELDS]
        if unknown:
            raise ValueError(f"{{{unknown[0]}}} is not known; use {{project}} or {{organisation}}")
        if value and not re.fullmatch(LABEL, re.sub(r"\{[^}]*\}", "x", value)):
            raise ValueError("is not a namespace: use lower-case letters, digits and '-'")
        return value

    @field_validator("api_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if value and (problem := find_url_problem(value)):
            raise ValueError(problem)
        return value

    @field_validator("certificate_authority")
    @classmethod
    def _check_certificate(cls, value: str) -> str:
        try:
            if value:
                ssl.create_default_context(cadata=value)
            return value
        except (ssl.SSLError, TypeError) as error:
            raise ValueError(
                "has no certificate in PEM format; give the lines from BEGIN CERTIFICATE to END CERTIFICATE, "
                f"such as the content of ca.crt ({error})"
            ) from None

    @field_validator("token")
    @classmethod
    def _check_token(cls, token: SecretStr) -> SecretStr:
        text = token.get_secret_value().strip()
        if not text.isascii() or not text.isprintable():
            raise ValueError("has characters that an HTTP header cannot contain")
        return SecretStr(text)

    @model_validator(mode="after")
    def _check_connection(self) -> "KubernetesOptions":
        ways = [
            bool(self.kubeconfig.get_secret_value()),
            bool(self.kubeconfig_path),
            bool(self.api_url),
        ]
        if sum(ways) > 1:
            raise ValueError("give only one of `kubeconfig`, `kubeconfig_path` and `api_url`")
        if bool(self.api_url) != bool(self.token.get_secret_value()):
            raise ValueError("the option `api_url` and the credential `token` are used together; give both")
        if self.context and self.api_url:
            raise ValueError("`context` belongs to a kubeconfig; leave it out with `api_url`")
        return self

    @property
    def schedule_limit_s(self) -> float:
        """How long a pod may wait for a node. An autoscaler needs its time before the limit of a start begins."""
        return self.start_limit_s + self.autoscale_wait_s

    @property
    def uses_all_namespaces(self) -> bool:
        """Whether the namespace depends on the job, so that pods are watched in all namespaces."""
        return "{" in self.namespace


def find_url_problem(url: str) -> str:
    """Return why a text cannot be the address of an API server; empty if it can be."""
    try:
        parts = urlsplit(url)
        is_valid = url.isprintable() and " " not in url and parts.scheme in ("http", "https")
        is_valid = is_valid and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    return "" if is_valid else "is not a URL of an API server, such as https://10.0.0.5:6443"


def parse_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse texts `key=value`."""
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def parse_toleration(text: str) -> dict[str, str]:
    """Parse `key`, `key=value`, `key:effect` or `key=value:effect` into a toleration of Kubernetes."""
    name, _, effect = text.partition(":")
    key, has_value, value = name.partition("=")
    parsed = {"key": key, "operator": "Equal" if has_value else "Exists"}
    if has_value:
        parsed["value"] = value
    return {**parsed, "effect": effect} if effect else parsed
