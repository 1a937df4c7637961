"""API models for access: the caller's identity, login links, tokens and secrets."""

from pydantic import Field

from anygpu.api.base import TIME, ApiModel, RequestModel


class ApiIndex(ApiModel):
    """The main paths of the API."""

    jobs: str = Field(examples=["/api/v1/training"])
    machines: str = Field(examples=["/api/v1/machines"])
    gpus: str = Field(examples=["/api/v1/monitoring/gpu"])
    who: str = Field(examples=["/api/v1/whoami"])
    api: str = Field(examples=["/api/v1/openapi.json"])


class CallerIdentity(ApiModel):
    """The owner and role of the token, and the server's version and agent URL."""

    organisation: str = Field(examples=["local"])
    project: str = Field(examples=["default"])
    person: str = Field(examples=["me"])
    role: str = Field(examples=["admin"])
    server_version: str = Field(examples=["0.1.0"])
    agent_url: str = Field(examples=["http://127.0.0.1:41234"])


class LoginLinkRequest(RequestModel):
    """How long a login link works if nobody opens it. Default: one minute; at most one hour."""

    expires_s: float = Field(default=60, gt=0, le=3600, examples=[60])


class LoginLink(ApiModel):
    """A link that logs in one browser, once, within `expires_s` seconds."""

    url: str = Field(examples=["http://127.0.0.1:7791/login/…"])
    expires_s: float = Field(examples=[60])


class TokenRequest(RequestModel):
    """A token to create. Defaults: the caller's organisation, project and person, and the role `member`."""

    name: str = Field(default="", max_length=200, examples=["laptop"])
    role: str = Field(default="member", max_length=200, examples=["member"])
    organisation: str = Field(default_factory=str, max_length=200, examples=["local"])
    project: str = Field(default_factory=str, max_length=200, examples=["default"])
    person: str = Field(default_factory=str, max_length=200, examples=["me"])
    expires_s: float | None = Field(default=None, gt=0, lt=1e10, examples=[86400])


class TokenDetails(ApiModel):
    """A token or browser session, without its secret."""

    id: str = Field(examples=["5f0c9d1e2b3a4c5d"])
    name: str = Field(examples=["laptop"])
    organisation: str = Field(examples=["local"])
    project: str = Field(examples=["default"])
    person: str = Field(examples=["me"])
    role: str = Field(examples=["member"])
    purpose: str = Field(examples=["api"])
    created_at: str = Field(examples=[TIME])
    used_at: str | None = Field(examples=[None])
    expires_at: str | None = Field(examples=[None])


class CreatedToken(TokenDetails):
    """A new token. The server shows `token` only now and stores only its hash."""

    token: str = Field(examples=["anygpu_…"])


class TokenList(ApiModel):
    """Tokens and browser sessions of a project."""

    tokens: list[TokenDetails]


class SecretName(ApiModel):
    """A stored secret, without its value."""

    name: str = Field(examples=["HF_TOKEN"])
    person: str = Field(examples=["me"])
    updated_at: str = Field(examples=[TIME])


class SecretList(ApiModel):
    """Secrets of the project, without their values."""

    secrets: list[SecretName]


class SecretRequest(RequestModel):
    """The value of a secret."""

    value: str = Field(max_length=65536, examples=["hf_…"])
