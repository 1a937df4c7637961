"""Paperspace's API v1 (docs.digitalocean.com/reference/paperspace/api-reference)."""

from anygpu.cloudsim.apis.paperspace.api import app
from anygpu.cloudsim.apis.paperspace.machines import VENDOR

__all__ = ["VENDOR", "app"]
