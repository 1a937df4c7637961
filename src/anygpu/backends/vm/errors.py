"""Refusals every provider has: said apart, because different people must act on them."""

from anygpu.errors import LaunchRefused


class CredentialsRefused(LaunchRefused):
    """The provider does not accept the credentials. Check them with `anygpu backend check`, and what they may do."""

    code = "credentials_refused"


class NotThere(LaunchRefused):
    """The provider does not know this resource. Nothing to do when it was to be removed."""

    code = "resource_gone"
