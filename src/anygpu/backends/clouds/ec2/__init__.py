"""Amazon EC2, on demand and spot, through boto3 (field names: botocore's ec2 model 2016-11-15).

`RunInstances` with a client token creates one machine per name. A machine that shuts itself down is
terminated (`InstanceInitiatedShutdownBehavior`), so it can end without the server. Spot machines are one-time
requests (`InstanceMarketOptions`) without a maximum price. The SSH public key is part of the user data, so
there is no key pair to clean up.
"""

from anygpu.backends.clouds.ec2.adapter import Ec2Options as Options
from anygpu.backends.clouds.ec2.adapter import ambient, connect

NEEDED_MODULES, EXTRA = ("boto3",), "aws"

__all__ = ["EXTRA", "NEEDED_MODULES", "Options", "ambient", "connect"]
