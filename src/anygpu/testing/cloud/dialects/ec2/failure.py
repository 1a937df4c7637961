"""EC2's refusals: a code, a message, and the HTTP status that goes with the code."""

from anygpu.testing.cloud.refusals import Refusal, Why

STATUS = {
    "AuthFailure": 401,
    "UnauthorizedOperation": 403,
    "DryRunOperation": 412,
    "RequestLimitExceeded": 503,
    "InsufficientInstanceCapacity": 500,  # a server error in EC2's own list
    "InternalError": 500,
}
DENIED = "AWS was not able to validate the provided access credentials"


class Failure(Exception):
    """An error as EC2 answers it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return STATUS.get(self.code, 400)


def in_ec2s_words(refusal: Refusal, *, spot: bool = False) -> Failure:
    """A refusal of the core, as a call that is not about one kind of resource says it."""
    if refusal.why is Why.BAD_CREDENTIALS:
        return Failure("AuthFailure", DENIED)
    if refusal.why is Why.THROTTLED:
        return Failure("RequestLimitExceeded", "Request limit exceeded.")
    if refusal.why is Why.NO_CAPACITY:
        return Failure("InsufficientInstanceCapacity", _no_capacity(refusal.what))
    if refusal.why is Why.QUOTA:
        return _over_quota(spot)
    if refusal.why is Why.MISMATCH:
        return Failure(
            "IdempotentParameterMismatch",
            f"Arguments on this idempotent request are inconsistent with arguments used in previous request(s). "
            f"Client token: {refusal.what}",
        )
    return Failure("InvalidParameterValue", refusal.message)


def _no_capacity(kind: str) -> str:
    return (
        f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested. "
        "Our system will be working on provisioning additional capacity."
    )


def _over_quota(spot: bool) -> Failure:
    if spot:
        return Failure("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    return Failure(
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of allows for the instance bucket that the "
        "specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
        "adjustment to this limit.",
    )
