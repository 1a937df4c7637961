"""The API server of a cluster: its requests with JSON objects. Uses lightkube.

Errors of the API server become errors of anygpu that say what to do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from anygpu.backends.kubernetes.config import (
    describe_cause,
    explain_credential_error,
    open_client,
    read_token_expiry,
)
from anygpu.backends.vm.provider import CredentialsRefused
from anygpu.errors import BackendNotOpen, BackendUnavailable, LaunchRefused, NoQuota

if TYPE_CHECKING:
    from lightkube import AsyncClient
    from lightkube.config.kubeconfig import SingleConfig

Json = dict[str, Any]
T = TypeVar("T")
ALL_NAMESPACES = "*"
MAX_REQUESTS = (
    14  # at the same time; the client keeps 20 connections open, and watches and lists use some of them
)
REFUSED_STATUS = (400, 403, 405, 406, 413, 415, 422)
# By a webhook or a policy of the cluster, which has nothing to do with rights.
ADMISSION_REFUSALS = ("denied the request", "denied request")
PAGE_OBJECTS = 250  # of a list; the event loop waits while a page is decoded


class AccessDenied(LaunchRefused):
    """The credentials of the backend may not do this in the cluster. Apply deploy/kubernetes/rbac.yaml."""

    code = "cluster_access"


class AlreadyExists(Exception):
    """An object of this name already exists in the cluster."""


class AnswerLost(BackendNotOpen):
    """The API server did not answer a change, which may have been carried out. It is tried again automatically."""

    # Not a LaunchError: the request may have created a Job.
    code = "cluster_answer_lost"


class ObjectMissing(Exception):
    """The object does not exist in the cluster."""


class Cluster:
    """A connection to the API server of a cluster."""

    def __init__(self, config: "SingleConfig") -> None:
        self._config = config
        self._client: AsyncClient | None = None
        self._turns = asyncio.Semaphore(MAX_REQUESTS)

    @property
    def url(self) -> str:
        return str(self._config.cluster.server)

    @property
    def token_expiry(self) -> float | None:
        """When the token expires, as a Unix time; None if it does not, or is renewed."""
        return read_token_expiry(self._config)

    @property
    def namespace(self) -> str:
        """The namespace of the context."""
        return self._config.namespace

    async def create(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Create an object. Raise AlreadyExists if an object of this name exists.

        With `dry_run`, the API server checks everything, but creates nothing.
        """
        metadata = manifest.get("metadata") or {}
        where = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
        thing = _resource(manifest["kind"]).from_dict(manifest)
        made = await self._call_in_turn(
            f"create the {manifest['kind']} {metadata.get('name', '')}".rstrip(),
            lambda client: client.create(thing, dry_run=dry_run, **where),
            is_write=True,
        )
        created: Json = made.to_dict()
        return created

    async def get(self, kind: str, name: str, namespace: str) -> Json | None:
        """Return an object, or None if it does not exist."""
        try:
            found = await self._call_in_turn(
                f"read the {kind} {name}",
                lambda client: client.get(_resource(kind), name, namespace=namespace),
            )
        except ObjectMissing:
            return None
        thing: Json = found.to_dict()
        return thing

    async def delete(self, kind: str, name: str, namespace: str, *, grace_s: float | None = None) -> bool:
        """Delete an object and what it owns. Return False if it did not exist."""
        from lightkube.types import CascadeType

        grace = None if grace_s is None else round(grace_s)
        try:
            await self._call_in_turn(
                f"delete the {kind} {name}",
                lambda client: client.delete(
                    _resource(kind),
                    name,
                    namespace=namespace,
                    grace_period=grace,
                    cascade=CascadeType.BACKGROUND,
                ),
                is_write=True,
            )
        except ObjectMissing:
            return False
        return True

    async def list_objects(
        self,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        keep: Callable[[Json], T],
        unfinished: bool = False,
    ) -> tuple[list[T], str]:
        """List the objects of a kind. Return what `keep` returns for each, and the version of the list.

        Changes can be watched from this version. `unfinished`: only pods that have not ended.
        """
        from lightkube.operators import not_in

        fields: Any = {"status.phase": not_in(["Succeeded", "Failed"])} if unfinished else None

        async def read(client: "AsyncClient") -> tuple[list[T], str]:
            where: dict[str, Any] = {} if namespace is None else {"namespace": namespace}
            listing = client.list(
                _resource(kind), labels=dict(labels or {}), fields=fields, chunk_size=PAGE_OBJECTS, **where
            )
            kept = [keep(each.to_dict()) async for each in listing]
            return kept, listing.resourceVersion

        listed: tuple[list[T], str] = await self._call(f"list {kind}s", read)
        return listed

    async def watch(
        self, kind: str, namespace: str, labels: Mapping[str, str], version: str, timeout_s: float
    ) -> AsyncIterator[tuple[str, Json]]:
        """Yield (ADDED, MODIFIED or DELETED, object) for each change after `version`. Errors are not translated."""
        changes = self._open().watch(
            _resource(kind),
            namespace=namespace,
            labels=dict(labels),
            server_timeout=round(timeout_s),
            resource_version=version,
        )
        async for event, thing in changes:
            yield event, thing.to_dict()

    async def is_allowed(self, verb: str, resource: str, group: str, namespace: str | None) -> bool:
        """Return whether the credentials may do this. The API server answers for the caller itself."""
        attributes = {"verb": verb, "resource": resource, "group": group}
        if namespace is not None:
            attributes["namespace"] = namespace
        review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        answer = await self.create(review)
        return bool((answer.get("status") or {}).get("allowed"))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _open(self) -> "AsyncClient":
        if self._client is None:
            self._client = open_client(self._config)
        return self._client

    async def _call_in_turn(self, what: str, request: Any, *, is_write: bool = False) -> Any:
        """Send a request of which there may be very many, so that no more than some are sent at the same time.

        More than the connections that the client keeps open would each need a new one, which takes longer than the
        request.
        """
        async with self._turns:
            return await self._call(what, request, is_write=is_write)

    async def _call(self, what: str, request: Any, *, is_write: bool = False) -> Any:
        """Send a request. Without a usable answer, raise AnswerLost for a write, and BackendUnavailable for a read."""
        import httpx2
        import msgspec
        from lightkube import ApiError

        client = self._open()
        no_answer = AnswerLost if is_write else BackendUnavailable
        try:
            return await request(client)
        except ApiError as error:
            code, message = error.status.code or 0, error.status.message or ""
            raise translate_status(what, code, message, is_write=is_write) from error
        except (httpx2.LocalProtocolError, UnicodeEncodeError):
            # The text of this error has the value of the header, which is a credential. Nothing was sent.
            raise CredentialsRefused(
                "The token of the cluster has characters that HTTP does not allow, such as a line break",
                hint="Store the credential `token` or `kubeconfig` of the backend again.",
            ) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise _translate_no_connection(self.url, describe_cause(error)) from error
        except httpx2.HTTPError as error:
            raise no_answer(
                f"The API server {self.url} did not answer the request to {what}: {describe_cause(error)}"
            ) from error
        except msgspec.DecodeError as error:
            raise no_answer(
                f"The answer of {self.url} to the request to {what} is not from an API server of Kubernetes: "
                f"{describe_cause(error)}. Check the address of the cluster."
            ) from error
        except Exception as error:
            if refusal := explain_credential_error(error, self._config):
                raise refusal from error
            if isinstance(error, OSError):
                raise no_answer(
                    f"The request to the API server {self.url} to {what} failed: {describe_cause(error)}"
                ) from error
            raise


def _translate_no_connection(url: str, cause: str) -> BackendUnavailable:
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return BackendUnavailable(
            f"The certificate of the API server {url} is not accepted: {cause}. Check the option "
            "`certificate_authority`, or `certificate-authority-data` in the kubeconfig, and the host name in the "
            "address."
        )
    return BackendUnavailable(
        f"The API server {url} cannot be reached: {cause}. Check that the cluster runs and that this server can "
        "reach it."
    )


def translate_status(what: str, code: int, message: str, *, is_write: bool) -> Exception:
    """Translate an error status of the API server to an error of anygpu.

    After a 5xx status, a write may have been carried out. After 429 (too many requests) it was not.
    """
    if code == 404 and "namespaces" not in message:
        return ObjectMissing(message)
    if code == 404:
        return LaunchRefused(
            f"The cluster refused to {what}: {message}",
            hint="Create the namespace and apply the role there, or change the option `namespace`.",
        )
    if code == 409:
        return AlreadyExists(message)
    if code == 401:
        return CredentialsRefused(
            "The API server does not accept the credentials of the backend (401)",
            hint="The token may have expired. Store a new one: `anygpu backend add NAME --change --credential token`.",
        )
    if code == 403 and "exceeded quota" in message:
        return NoQuota(f"The quota of the namespace does not allow to {what}: {message}")
    if code == 403 and not any(text in message for text in ADMISSION_REFUSALS):
        return AccessDenied(
            f"The backend may not {what}: {message}",
            hint="Apply deploy/kubernetes/rbac.yaml, and run `anygpu backend check`.",
        )
    if code in REFUSED_STATUS:
        return LaunchRefused(
            f"The cluster refused to {what}: {message}", hint="Correct the options of the backend or the job."
        )
    text = f"The API server answered the request to {what} with status {code}: {message}"
    return AnswerLost(text) if is_write and code != 429 else BackendUnavailable(text)


def _resource(kind: str) -> Any:
    """Return the class of lightkube for a kind."""
    from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
    from lightkube.resources.batch_v1 import Job
    from lightkube.resources.core_v1 import ConfigMap, Node, Pod, Secret

    classes: dict[str, Any] = {
        "ConfigMap": ConfigMap,
        "Job": Job,
        "Node": Node,
        "Pod": Pod,
        "Secret": Secret,
        "SelfSubjectAccessReview": SelfSubjectAccessReview,
    }
    return classes[kind]
