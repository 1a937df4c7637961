"""EC2's error codes, messages and HTTP statuses."""

from anygpu.cloudsim.errors import CloudError, ErrorReason

STATUS = {
    "AuthFailure": 401,
    "UnauthorizedOperation": 403,
    "DryRunOperation": 412,
    "RequestLimitExceeded": 503,
    "InsufficientInstanceCapacity": 500,  # a server error in EC2's own list
    "InternalError": 500,
}
DENIED = "AWS was not able to validate the provided access credentials"


class Ec2Error(Exception):
    """An error response of EC2."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return STATUS.get(self.code, 400)


def as_ec2_error(refusal: CloudError, *, spot: bool = False) -> Ec2Error:
    """Return EC2's error for a CloudError.

    An error for which EC2 has no code of its own becomes `InvalidParameterValue`.
    """
    if refusal.reason is ErrorReason.BAD_CREDENTIALS:
        return Ec2Error("AuthFailure", DENIED)
    if refusal.reason is ErrorReason.THROTTLED:
        return Ec2Error(
            "RequestLimitExceeded",
            "Request limit exceeded: too many requests in a short time. Wait and try again.",
        )
    if refusal.reason is ErrorReason.NO_CAPACITY:
        return Ec2Error("InsufficientInstanceCapacity", _capacity_message(refusal.subject))
    if refusal.reason is ErrorReason.QUOTA:
        return _quota_error(spot)
    if refusal.reason is ErrorReason.MISMATCH:
        return Ec2Error(
            "IdempotentParameterMismatch",
            f"The client token {refusal.subject} was already used for a request with other parameters. Use a "
            "new token.",
        )
    return Ec2Error("InvalidParameterValue", refusal.message)


def _capacity_message(machine_type: str) -> str:
    return (
        f"We currently do not have sufficient {machine_type} capacity in the Availability Zone you requested. "
        "Our system will be working on provisioning additional capacity."
    )


def _quota_error(spot: bool) -> Ec2Error:
    if spot:
        return Ec2Error(
            "MaxSpotInstanceCountExceeded",
            "Max spot instance count exceeded: the quota of spot instances is used up. Terminate an instance "
            "first.",
        )
    return Ec2Error(
        "VcpuLimitExceeded",
        "The quota of vCPUs for this family of instance types is used up. Terminate an instance first.",
    )
