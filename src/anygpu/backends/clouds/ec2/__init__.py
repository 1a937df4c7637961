"""Amazon EC2, on demand and spot, by boto3 (shapes: botocore's ec2 model 2016-11-15).

`RunInstances` with a client token creates one machine per name. A machine that halts is terminated
(`InstanceInitiatedShutdownBehavior`), so it ends by itself. Spot is `InstanceMarketOptions`, one time, without a
maximum price. The public key is part of the user data: there is no key pair to clean up.
"""

from anygpu.backends.clouds.ec2.adapter import Ec2Options as Options
from anygpu.backends.clouds.ec2.adapter import ambient, connect

__all__ = ["Options", "ambient", "connect"]
