"""Blocking calls, off the event loop.

obstore has asynchronous calls of its own, but a process that exits within milliseconds of one may abort: its
threads come back to an interpreter that is gone. Its blocking calls in threads of ours do not.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Threads:
    """A few threads for one store, so that a slow bucket holds up nothing else."""

    def __init__(self, count: int = 16) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="blobs")

    async def __call__(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))
