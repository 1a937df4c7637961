"""Refusals every provider has: said apart, because different people must act on them."""

from anygpu.errors import LaunchRefused


class QuotaReached(LaunchRefused):
    """The provider's quota for this account is used up. Ask the provider for more, or end some machines."""

    code = "quota"


class CredentialsRefused(LaunchRefused):
    """The provider does not accept the credentials. Check them with `anygpu backend check`, and what they may do."""

    code = "credentials_refused"
