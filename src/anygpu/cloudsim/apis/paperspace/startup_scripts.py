"""Paperspace's startup scripts, and the pagination of its lists."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from anygpu.cloudsim.apis.json_api import iso_time, json_body, required_text
from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason

T = TypeVar("T")
PAGE_SIZE = 120
MAX_SCRIPT_BYTES = 16 * 1024  # docs.paperspace.com/core/api-reference/scripts


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupScript:
    """A startup script of the team, usable by any number of machines."""

    id: str
    name: str
    script: str
    is_run_once: bool
    created_at_ms: int


class StartupScripts:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._scripts: dict[str, StartupScript] = {}

    def boot_script(self, id: str | None) -> str:
        """Return the text of a startup script for a simulated machine, or an empty string if `id` is empty.

        Paths in `/home/paperspace` are changed to `$HOME`, because each simulated machine has its own home
        directory.
        """
        if not id:
            return ""
        script = self._find(id).script
        shebang = "" if script.startswith("#!") else "#!/bin/bash\n"
        return shebang + re.sub(r"(?:/home/|~)paperspace\b", "${HOME}", script)

    async def list(self, request: Request) -> Any:
        return page(list(self._scripts.values()), request, self._json)

    async def add(self, request: Request) -> Any:
        body = await json_body(request)
        script = required_text(body, "script")
        if len(script.encode()) > MAX_SCRIPT_BYTES:
            raise CloudError(
                ErrorReason.INVALID,
                "The startup script is larger than 16 KB, which is the limit. Send a shorter one.",
                subject="script",
            )
        made = StartupScript(
            id=self._cloud.new_id("sc", 10),
            name=required_text(body, "name"),
            script=script,
            is_run_once=bool(body.get("isRunOnce")),
            created_at_ms=self._cloud.clock.now_ms(),
        )
        self._scripts[made.id] = made
        return self._json(made)

    async def get(self, request: Request) -> Any:
        return self._json(self._find(request.path_params["id"]))

    async def remove(self, request: Request) -> Any:
        script = self._find(request.path_params["id"])
        del self._scripts[script.id]
        return {**self._json(script), "dtDeleted": iso_time(self._cloud.clock.now_ms())}

    def _find(self, id: str) -> StartupScript:
        if (script := self._scripts.get(id)) is None:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                "Startup script not found: no script has this id. List the startup scripts for their ids.",
                subject=id,
            )
        return script

    def _json(self, script: StartupScript) -> dict[str, Any]:
        """Return the script's JSON. As in the real API, the text of the script is not included."""
        machines = [
            each.id
            for each in self._cloud.instances.values()
            if each.order.native.get("startupScriptId") == script.id and not each.state.is_ended
        ]
        return {
            "id": script.id,
            "name": script.name,
            "description": "",
            "isEnabled": True,
            "isRunOnce": script.is_run_once,
            "assignedMachineIds": machines,
            "dtCreated": iso_time(script.created_at_ms),
            "dtDeleted": None,
        }


def page(everything: Sequence[T], request: Request, shape: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
    """Return one page of a list: at most `limit` items after the cursor `after`."""
    query = request.query_params
    start, limit = int(query.get("after") or 0), int(query.get("limit") or PAGE_SIZE)
    end = start + min(limit, PAGE_SIZE)
    more = end < len(everything)
    items = [shape(each) for each in everything[start:end]]
    return {"hasMore": more, **({"nextPage": str(end)} if more else {}), "items": items}
