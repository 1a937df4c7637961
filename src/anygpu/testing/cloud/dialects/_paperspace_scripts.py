"""Paperspace's startup scripts, and the pages in which it lists things."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects._wire import asked, iso, text
from anygpu.testing.cloud.refusals import Refusal, Why

T = TypeVar("T")
PAGE = 120
SCRIPT_BYTES = 16 * 1024  # docs.paperspace.com/core/api-reference/scripts


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """It belongs to the team, and may be given to any number of machines."""

    id: str
    name: str
    script: str
    is_run_once: bool
    created_at_ms: int


class StartupScripts:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._scripts: dict[str, Script] = {}

    def to_run(self, id: str | None) -> str:
        """What a machine runs at boot. Its user's home is not at the usual place here, so that is looked up."""
        if not id:
            return ""
        script = self._find(id).script
        shebang = "" if script.startswith("#!") else "#!/bin/bash\n"
        return shebang + re.sub(r"(?:/home/|~)paperspace\b", "${HOME}", script)

    async def list(self, request: Request) -> Any:
        return page(list(self._scripts.values()), request, self._json)

    async def add(self, request: Request) -> Any:
        given = await asked(request)
        script = text(given, "script")
        if len(script.encode()) > SCRIPT_BYTES:
            raise Refusal(Why.INVALID, "script must be at most 16 KB", what="script")
        made = Script(
            id=self._cloud.new_id("sc", 10),
            name=text(given, "name"),
            script=script,
            is_run_once=bool(given.get("isRunOnce")),
            created_at_ms=self._cloud.clock.now_ms(),
        )
        self._scripts[made.id] = made
        return self._json(made)

    async def get(self, request: Request) -> Any:
        return self._json(self._find(request.path_params["id"]))

    async def remove(self, request: Request) -> Any:
        script = self._find(request.path_params["id"])
        del self._scripts[script.id]
        return {**self._json(script), "dtDeleted": iso(self._cloud.clock.now_ms())}

    def _find(self, id: str) -> Script:
        if (found := self._scripts.get(id)) is None:
            raise Refusal(Why.NOT_FOUND, "Startup script not found", what=id)
        return found

    def _json(self, script: Script) -> dict[str, Any]:
        """Without its text: the vendor does not give it out again."""
        machines = [
            each.id
            for each in self._cloud.instances.values()
            if each.order.native.get("startupScriptId") == script.id and not each.state.over
        ]
        return {
            "id": script.id,
            "name": script.name,
            "description": "",
            "isEnabled": True,
            "isRunOnce": script.is_run_once,
            "assignedMachineIds": machines,
            "dtCreated": iso(script.created_at_ms),
            "dtDeleted": None,
        }


def page(found: Sequence[T], request: Request, shape: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    """Up to `limit` of them after the cursor `after`, which is where the last page ended."""
    query = request.query_params
    start, limit = int(query.get("after") or 0), int(query.get("limit") or PAGE)
    end = start + min(limit, PAGE)
    more = end < len(found)
    items = [shape(each) for each in found[start:end]]
    return {"hasMore": more, **({"nextPage": str(end)} if more else {}), "items": items}
