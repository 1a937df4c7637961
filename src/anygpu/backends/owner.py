"""A tag that marks what a server has started somewhere, so that servers leave each other's resources alone.

The tag is derived from the server's secret: servers that share a journal and its keys share the tag too. Resources
carry the tag, so the tag for a purpose must never change.
"""

import hashlib
import hmac

TAG_DIGITS = 12


def owner_tag(secret: bytes, purpose: str, digits: int = TAG_DIGITS) -> str:
    """Return the tag of the server with this secret, for one kind of resource."""
    return hmac.new(secret, purpose.encode(), hashlib.sha256).hexdigest()[:digits]
