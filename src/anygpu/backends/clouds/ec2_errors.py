"""EC2's refusals in our words. Codes: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html."""

from typing import Any

from anygpu.backends.clouds.http import OutcomeUnknown
from anygpu.backends.vm.errors import CredentialsRefused, NotThere
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
MISSING = ("NotFound", "NoSuchEntity")


def refusal(error: Any, *, what: str, region: str, who: str) -> AnygpuError | OutcomeUnknown:
    """What a botocore ClientError means for us. `who` names the credentials, never shows them."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    words = str(error.response.get("Error", {}).get("Message", "")) or code
    said = f"EC2 in {region} answered {what} with {code}: {words}"
    if code in NO_CAPACITY:
        return NoCapacity(f"EC2 in {region} has no such machine now: {words}", vendor_code=code)
    if code in QUOTA:
        hint = f"Ask for more in Service Quotas of region {region}, or end some machines."
        return NoQuota(said, hint=hint, vendor_code=code)
    if code in THROTTLED:
        return RateLimited(said, vendor_code=code)
    if code in CREDENTIALS:
        hint = f"Check the credentials ({who}), what they may do, and that region {region} is enabled for it."
        return CredentialsRefused(said, hint=hint, vendor_code=code)
    if code.endswith(MISSING):
        return NotThere(said, vendor_code=code)
    if status >= 500:
        return OutcomeUnknown(said)
    return LaunchRefused(
        said, hint="Correct the region, the type or the image of the backend.", vendor_code=code
    )


def transport(error: Exception, *, region: str, who: str) -> AnygpuError | OutcomeUnknown:
    """What any other botocore error means: nothing was sent, or nobody knows what became of it."""
    from botocore import exceptions

    never_sent = (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
    )
    if isinstance(error, never_sent):
        hint = f"Check that {region!r} is a region of EC2, and the network."
        return BackendUnavailable(f"EC2 in {region} cannot be reached: {error}", hint=hint)
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError):
        return OutcomeUnknown(f"EC2 in {region} did not answer: {error}")
    if isinstance(error, exceptions.ParamValidationError):
        return LaunchRefused(f"this is no request EC2 understands: {error}")
    hint = "Log in (`aws configure`, `aws sso login`), set AWS_PROFILE, or give the backend its keys."
    return CredentialsRefused(f"no usable AWS credentials ({who}): {error}", hint=hint)
