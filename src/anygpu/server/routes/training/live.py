"""One WebSocket for everything that a client follows."""

from fastapi import WebSocket

from anygpu.server.http.route import api_router
from anygpu.server.live.session import LiveSession
from anygpu.server.services import CallerDep, ServicesDep

router = api_router("/api/v1", tag="stream")


@router.websocket("/live")
async def live_socket(socket: WebSocket, services: ServicesDep, caller: CallerDep) -> None:
    services.stream_sources.hub.require_capacity()
    await socket.accept()
    await LiveSession(socket, services, caller).run()
