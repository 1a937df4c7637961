"""Variables that configure uv, pip and other installers: package indexes, proxies and certificates.

Programs that install packages for a job get them. The job's own process does not, because a URL of an index or
proxy may contain a password.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIXES = ("PIP_", "UV_")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
NAMES = frozenset((*CERTIFICATES, *PROXIES, *(name.lower() for name in PROXIES)))
# These choose the environment to install into. For a job that is always the job's own environment.
TARGETS = frozenset(
    (
        "PIP_DRY_RUN",
        "PIP_PREFIX",
        "PIP_PYTHON",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_ROOT",
        "PIP_TARGET",
        "PIP_USER",
        "UV_PROJECT",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "UV_WORKING_DIR",
    )
)
_USER_INFO = re.compile(r"://([^/@\s]+)@")


def installer_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that configure installers, except those that choose where packages are installed."""
    return {
        name: value
        for name, value in variables.items()
        if name in NAMES or (name.startswith(PREFIXES) and name not in TARGETS)
    }


def url_credentials(texts: Iterable[str]) -> list[str]:
    """Return the user names and passwords in the URLs of these texts, as they appear in installers' output."""
    found = [match for text in texts for match in _USER_INFO.findall(text)]
    passwords = [user_info.partition(":")[2] for user_info in found]
    return [*found, *(password for password in passwords if password)]
