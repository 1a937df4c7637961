"""Call AWS with boto3 in a few threads, and translate its errors.

Error codes: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from anygpu.backends.clouds.ec2.parser import InstanceParser
from anygpu.backends.vm.provider import CredentialsRefused, OutcomeUnknown, ResourceNotFound
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchRefused, NoCapacity, NoQuota, RateLimited

NO_CAPACITY = {
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientCapacity",
    "ReservationCapacityExceeded",
    "SpotMaxPriceTooLow",
}
QUOTA = {
    "VcpuLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "InstanceLimitExceeded",
    "VolumeLimitExceeded",
    "SecurityGroupLimitExceeded",
}
THROTTLED = {
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "LimitExceededException",
    "EC2ThrottledException",
}
CREDENTIALS = {
    "AuthFailure",
    "UnauthorizedOperation",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "AccessDenied",
    "AccessDeniedException",
    "OptInRequired",
    "Blocked",
    "PendingVerification",
}
NOT_FOUND_SUFFIXES = ("NotFound", "NoSuchEntity")


def translate_client_error(error: Any, *, what: str, region: str, who: str) -> AnygpuError | OutcomeUnknown:
    """Translate a botocore ClientError (an error answer of AWS) to one of anygpu's errors.

    `what` is the operation. `who` describes the credentials in use without showing them.
    """
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    detail = str(error.response.get("Error", {}).get("Message", "")) or code
    message = f"EC2 in {region} answered {what} with {code}: {detail}"
    if code in NO_CAPACITY:
        return NoCapacity(f"EC2 in {region} has no capacity for this machine now: {detail}", vendor_code=code)
    if code in QUOTA:
        hint = f"Request a higher quota in Service Quotas of region {region}, or end some machines."
        return NoQuota(message, hint=hint, vendor_code=code)
    if code in THROTTLED:
        return RateLimited(message, vendor_code=code)
    if code in CREDENTIALS:
        hint = f"Check the credentials ({who}), their permissions, and that region {region} is enabled."
        return CredentialsRefused(message, hint=hint, vendor_code=code)
    if code.endswith(NOT_FOUND_SUFFIXES):
        return ResourceNotFound(message, vendor_code=code)
    if status >= 500:
        return OutcomeUnknown(message)
    return LaunchRefused(
        message, hint="Correct the region, the instance type or the image of the backend.", vendor_code=code
    )


def translate_transport_error(error: Exception, *, region: str, who: str) -> AnygpuError | OutcomeUnknown:
    """Translate any other botocore error to one of anygpu's errors.

    Return `OutcomeUnknown` if the request may have reached AWS.
    """
    from botocore import exceptions

    never_sent = (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
    )
    if isinstance(error, never_sent):
        hint = f"Check that {region!r} is a region of EC2, and check the network of the server."
        return BackendUnavailable(f"EC2 in {region} cannot be reached: {error}", hint=hint)
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError):
        return OutcomeUnknown(
            f"EC2 in {region} did not answer, so it is unknown whether it executed the request: {error}"
        )
    if isinstance(error, exceptions.ParamValidationError):
        return LaunchRefused(
            "A value of the backend's options has a form that EC2 does not accept; correct the option: "
            f"{error}"
        )
    hint = "Log in (`aws configure`, `aws sso login`), set AWS_PROFILE, or set the backend's credentials."
    return CredentialsRefused(f"the AWS credentials cannot be used ({who}): {error}", hint=hint)


THREADS = 16
CONNECT_S = 10
READ_S = 60  # RunInstances and large pages take some seconds


class AwsClient:
    """Calls AWS in threads. boto3 is imported at the first call, because the import takes a third of a second."""

    def __init__(self, *, endpoint: str = "", profile: str = "", keys: tuple[str, str, str] | None) -> None:
        """Create the client. `keys` are (access key id, secret, session token).

        If `keys` is None, boto3 searches for credentials: in the environment, the profile, or the role of the
        machine.
        """
        self._endpoint = endpoint
        self._profile = profile
        self._keys = keys
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}
        self._client_lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="ec2")

    @property
    def credentials_label(self) -> str:
        """Description of the credentials in use, for error messages."""
        if self._keys:
            return f"access key {self._keys[0]}"
        return f"profile {self._profile!r}" if self._profile else "the AWS credentials of the environment"

    async def default_region(self) -> str:
        session = await self._in_thread(self._get_session)
        return str(session.region_name or "us-east-1")

    async def call(self, region: str, operation: str, *, service: str = "ec2", **params: Any) -> Any:
        """Send a request that changes something in AWS.

        After a LaunchError nothing was changed. After any other error, the change may have been made.
        """
        return await self._in_thread(partial(self._call_client, service, region, operation, params), region)

    async def read(self, region: str, operation: str, *, service: str = "ec2", **params: Any) -> Any:
        """Send a request that only reads. Raise `BackendUnavailable` if there is no answer."""
        try:
            return await self.call(region, operation, service=service, **params)
        except OutcomeUnknown as error:
            raise BackendUnavailable(str(error)) from error

    async def pages(self, region: str, operation: str, key: str, **params: Any) -> AsyncIterator[Any]:
        """Yield all items under `key` from all pages of an operation's answers."""
        token: dict[str, str] = {}
        while True:
            page = await self.read(region, operation, **params, **token)
            for item in page.get(key, ()):
                yield item
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    async def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()

    async def _in_thread(self, work: Any, region: str = "") -> Any:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except ClientError as error:
            what = error.operation_name
            raise translate_client_error(
                error, what=what, region=region, who=self.credentials_label
            ) from error
        except ResponseParserError as error:  # for example the error page of a proxy
            raise OutcomeUnknown(
                f"EC2 in {region}: the answer did not come from EC2; check for a proxy between the server and AWS"
            ) from error
        except BotoCoreError as error:
            raise translate_transport_error(error, region=region, who=self.credentials_label) from error

    def _call_client(self, service: str, region: str, operation: str, params: dict[str, Any]) -> Any:
        return getattr(self._client(service, region), operation)(**params)

    def _get_session(self) -> Any:
        import boto3
        from botocore.session import Session

        with self._client_lock:
            if self._session is None:
                core = Session(profile=self._profile or None)
                core.register_component("data_loader", _model_loader())
                key_id, secret, token = self._keys or (None, None, None)
                self._session = boto3.Session(
                    botocore_session=core,
                    aws_access_key_id=key_id,
                    aws_secret_access_key=secret,
                    aws_session_token=token or None,
                )
            return self._session

    def _client(self, service: str, region: str) -> Any:
        session = self._get_session()
        with self._client_lock:  # creating clients is not thread-safe, using them is
            if (service, region) not in self._clients:
                client = session.client(
                    service, region_name=region, endpoint_url=self._endpoint or None, config=_config()
                )
                client.meta.events.register(
                    "before-parse.ec2.DescribeInstances", InstanceParser().before_parse
                )
                self._clients[service, region] = client
            return self._clients[service, region]


@cache
def _model_loader() -> Any:
    """Return botocore's loader of service models. It is shared, because loading the EC2 model takes a second."""
    from botocore.loaders import create_loader

    return create_loader()


def _config() -> Any:
    from botocore.config import Config

    # One try: a retry would hide whether the first was executed, and our callers retry anyway.
    return Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"total_max_attempts": 1},
        max_pool_connections=THREADS,
        user_agent_extra="anygpu",
    )
