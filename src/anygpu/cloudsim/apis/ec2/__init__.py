"""The EC2 Query API, STS, Service Quotas and Cost Explorer at one endpoint.

The formats are those of botocore's models (ec2 2016-11-15, sts 2011-06-15, service-quotas 2019-06-24, ce 2017-10-25).
Error codes and their HTTP statuses are those of "Error codes for the Amazon EC2 API" in the EC2 API reference.
"""

from anygpu.cloudsim.apis.ec2.app import app
from anygpu.cloudsim.apis.ec2.instance_types import VENDOR

__all__ = ["VENDOR", "app"]
