"""RunPod's REST API v2 (docs.runpod.io/api-reference-v2) and the query of its GraphQL API that returns the balance."""

from anygpu.cloudsim.apis.runpod.api import app
from anygpu.cloudsim.apis.runpod.gpus import VENDOR

__all__ = ["VENDOR", "app"]
