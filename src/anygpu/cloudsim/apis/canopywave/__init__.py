"""CanopyWave's cloud API v1 (canopywave.com/cloud-api)."""

from anygpu.cloudsim.apis.canopywave.api import app
from anygpu.cloudsim.apis.canopywave.flavors import VENDOR

__all__ = ["VENDOR", "app"]
