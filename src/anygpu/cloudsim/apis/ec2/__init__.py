"""Amazon EC2's Query API, with what goes with it: STS, Service Quotas and Cost Explorer, all at one endpoint.

Shapes are those of botocore's models (ec2 2016-11-15, sts 2011-06-15, service-quotas 2019-06-24, ce 2017-10-25); codes
and their HTTP status are those of the EC2 API reference, "Error codes for the Amazon EC2 API".
"""

from anygpu.cloudsim.apis.ec2.app import app
from anygpu.cloudsim.apis.ec2.instance_types import VENDOR

__all__ = ["VENDOR", "app"]
