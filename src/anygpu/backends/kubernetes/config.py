"""How to connect to a cluster: read the configuration, open a client, and explain what is wrong with it.

Some mistakes show only when the client opens, or when it asks a plugin for a credential before the first request.
"""

import base64
import errno
import json
import ssl
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import yaml

from anygpu.backends.kubernetes.options import KubernetesOptions, find_url_problem
from anygpu.backends.vm.provider import CredentialsRefused
from anygpu.errors import LaunchRefused

if TYPE_CHECKING:
    from lightkube import AsyncClient
    from lightkube.config.kubeconfig import SingleConfig
    from lightkube.config.models import UserExec

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TIMEOUT_S = 30.0
MESSAGE_CHARS = 1000
MAX_UNIX_TIME = 2**37  # beyond this, a date has no year of four digits
FILE_FIELDS = (
    "client-certificate",
    "client-key",
    "certificate-authority",
    "tokenFile",
    "exec",
    "auth-provider",
)
PLUGIN_VERSION = "client.authentication.k8s.io/v1beta1"  # the newest one that the client knows


def load_config(options: KubernetesOptions, *, account: str = SERVICE_ACCOUNT) -> "SingleConfig":
    """Return how to connect: from the credential, the file, the token, the pod's own account or the user's file.

    `account` is the directory with the token of the pod in which the server runs.
    Raise LaunchRefused if the configuration cannot be used.
    """
    from lightkube.core.exceptions import ConfigError

    try:
        return _load_config(options, account)
    except (ConfigError, OSError, KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
        raise LaunchRefused(
            f"The configuration of the cluster cannot be used: {describe_cause(error)}",
            hint=_config_hint(options),
        ) from error


def _config_hint(options: KubernetesOptions) -> str:
    if options.kubeconfig.get_secret_value() or options.kubeconfig_path:
        return "Check the kubeconfig with `kubectl config view`, and the option `context`."
    if options.api_url:
        return "Check the options `api_url` and `certificate_authority`."
    return (
        "Set the option `kubeconfig_path`, or give the credential `kubeconfig`, or set `api_url` and give the "
        "credential `token`."
    )


def _load_config(options: KubernetesOptions, account: str) -> "SingleConfig":
    from lightkube.config.kubeconfig import KubeConfig

    text = options.kubeconfig.get_secret_value()
    if text:
        content = yaml.safe_load(text)
        _refuse_files(content)
        config = KubeConfig.from_dict(content)
    elif options.api_url:
        config = _token_config(options)
    elif options.kubeconfig_path:
        config = KubeConfig.from_file(options.kubeconfig_path)
    else:
        config = KubeConfig.from_env(service_account=account)
    chosen = config.get(options.context or None)
    if chosen is None or chosen.user is None:
        raise ValueError("the context has no user")
    if problem := find_url_problem(chosen.cluster.server):
        raise ValueError(f"the `server` of the cluster {chosen.context.cluster} {problem}")
    return chosen


def _token_config(options: KubernetesOptions) -> Any:
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.config.models import Cluster, User

    authority = options.certificate_authority.encode()
    cluster = Cluster(
        server=options.api_url,
        certificate_auth_data=base64.b64encode(authority).decode() if authority else None,
    )
    return KubeConfig.from_one(cluster=cluster, user=User(token=options.token.get_secret_value()))


def _refuse_files(content: Any) -> None:
    """Refuse a stored kubeconfig that would make the server read its own files or run a command."""
    for section, part in (("users", "user"), ("clusters", "cluster")):
        for entry in content.get(section) or []:
            for name in FILE_FIELDS:
                if (entry.get(part) or {}).get(name):
                    raise ValueError(
                        f"{section}.{entry.get('name')}.{name} names a file or command of another machine; use data "
                        f"fields and a token (`kubectl config view --raw --flatten`), or `kubeconfig_path`"
                    )


def open_client(config: "SingleConfig") -> "AsyncClient":
    """Return a client. Raise LaunchRefused if the certificates, the address or the kind of user cannot be used."""
    import httpx2
    from lightkube import AsyncClient
    from lightkube.core.exceptions import ConfigError

    try:
        _check_certificates(config)
        # Environment variables of the server name no proxy for a cluster.
        return AsyncClient(config=config, timeout=httpx2.Timeout(TIMEOUT_S), trust_env=False)
    except (ConfigError, httpx2.InvalidURL, OSError, ValueError) as error:  # SSLError is an OSError
        parts = [name for name in _used_parts(config) if name != "exec"]
        raise LaunchRefused(
            f"The configuration of the cluster cannot be used: {describe_cause(error)}",
            hint=f"Check {_list(['server', *parts])} in the kubeconfig, or the options of the backend.",
        ) from error


def _check_certificates(config: "SingleConfig") -> None:
    """Raise ValueError if certificates in a kubeconfig cannot be used. The client would not say which."""
    authority, user = config.cluster.certificate_auth_data, config.user
    try:
        if authority:
            pem = base64.b64decode(authority).decode("ascii", "replace").replace("\ufffd", "?")
            ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"`certificate-authority-data` has no certificate: {error}") from None
    try:
        if user is not None and user.client_cert_data and user.client_key_data:
            with NamedTemporaryFile() as file:
                file.write(
                    base64.b64decode(user.client_cert_data) + b"\n" + base64.b64decode(user.client_key_data)
                )
                file.flush()
                ssl.create_default_context().load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(
            f"`client-certificate-data` and `client-key-data` are no certificate with its key: {error}"
        ) from None


def read_token_expiry(config: "SingleConfig") -> float | None:
    """Return when the token of a configuration expires, as a Unix time.

    None if it does not expire, is no JSON Web Token, or comes from a file or a command that renews it.
    """
    user = config.user
    if user is None or not user.token or user.token_file is not None or user.exec is not None:
        return None
    payload = user.token.partition(".")[2].partition(".")[0]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return None
    expiry = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(expiry, int | float) or not 0 < expiry < MAX_UNIX_TIME:
        return None
    return float(expiry)


def explain_credential_error(error: Exception, config: "SingleConfig") -> CredentialsRefused | None:
    """Return why no credential could be read for a request, which was then not sent. None for all other errors."""
    from lightkube.core.exceptions import ConfigError

    user = config.user
    if user is not None and user.token_file is not None:
        if isinstance(error, (ConfigError, UnicodeDecodeError)) or _is_file_error(error):
            return CredentialsRefused(
                f"The token of the cluster cannot be read from {user.token_file}: {describe_cause(error)}",
                hint="The user of the server must be able to read this file. It is `tokenFile` of the kubeconfig, or "
                "belongs to the service account of the server's pod.",
            )
    elif user is not None and user.exec is not None:
        if isinstance(error, (ConfigError, UnicodeDecodeError)) or _is_file_error(error):
            return _plugin_refusal(user.exec, describe_cause(error)[:MESSAGE_CHARS])
        if _is_output_error(error):
            text = "it printed no ExecCredential (JSON with `status.token`)"
            return _plugin_refusal(user.exec, text)
    return None


def _is_file_error(error: Exception) -> bool:
    """Return whether a file could not be read or run. Errors of connections are other errors of the client."""
    kinds = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, kinds) or (isinstance(error, OSError) and error.errno == errno.ENOEXEC)


def _is_output_error(error: Exception) -> bool:
    """Return whether the client did not understand what a plugin printed. It uses `json` for nothing else."""
    is_missing = isinstance(error, KeyError) and error.args[0] in ("status", "token")
    return is_missing or isinstance(error, (json.JSONDecodeError, TypeError))


def _plugin_refusal(plugin: "UserExec", why: str) -> CredentialsRefused:
    if "api version" in why:
        hint = f"Set `apiVersion: {PLUGIN_VERSION}` in the kubeconfig, or use `api_url` with a token."
    else:
        hint = (
            "Run this command on the server, as the user of the server. If it is missing there, install it, or use "
            "`api_url` with a token of a service account."
        )
    return CredentialsRefused(
        f"The command {plugin.command} of the kubeconfig (`exec`) gave no credential: {why}", hint=hint
    )


def _used_parts(config: "SingleConfig") -> list[str]:
    """Return the parts of a kubeconfig that name certificates or credentials, as far as they are set."""
    from msgspec import to_builtins

    set_parts = {**to_builtins(config.cluster), **to_builtins(config.user)}
    return [name for name in set_parts if name.startswith(("certificate", "client", *FILE_FIELDS))]


def _list(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def describe_cause(error: BaseException) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
