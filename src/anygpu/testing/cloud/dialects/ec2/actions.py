"""Every action of the Query API that is spoken here."""

from collections.abc import Awaitable, Callable, Mapping

from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.wire import Fields

Action = Callable[[Region, Fields], Awaitable[Fields]]
ACTIONS: Mapping[str, Action] = {}
