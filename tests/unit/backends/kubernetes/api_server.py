"""An API server that the real client talks to in this process. It has the recorded nodes and pods."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
from lightkube import AsyncClient
from tests.unit.backends.kubernetes.objects import recorded

from anygpu.backends.kubernetes.attempts import KubernetesBackend
from anygpu.backends.kubernetes.options import KubernetesOptions

Json = dict[str, Any]
Answer = Callable[[httpx2.Request], httpx2.Response | None]


def status(code: int, message: str = "the API server is being restarted") -> httpx2.Response:
    return httpx2.Response(
        code, json={"kind": "Status", "status": "Failure", "code": code, "message": message}
    )


class ApiServer:
    """Answers like the API server of a cluster, except where `answer` has another answer."""

    def __init__(self, answer: Answer = lambda request: None) -> None:
        self.answer = answer
        self.created: list[str] = []

    def backend(self, **options: Any) -> KubernetesBackend:
        token = {"api_url": "http://127.0.0.1:1", "token": "t", "namespace": "ml"}
        backend = KubernetesBackend(
            "lab", KubernetesOptions.model_validate({**token, **options}), secret=b"s"
        )
        cluster, _ = backend._connection()
        transport = httpx2.MockTransport(self._answer)
        cluster._client = AsyncClient(config=cluster._config, transport=transport, trust_env=False)
        return backend

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        if (other := self.answer(request)) is not None:
            return other
        if request.method == "POST":
            return self._create(request)
        if "watch" in request.url.params:
            await asyncio.Event().wait()  # nothing changes
        kind = request.url.path.rpartition("/")[2]
        items = recorded(kind) if kind in ("nodes", "pods") and "/ml/" not in request.url.path else []
        return httpx2.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": items})

    def _create(self, request: httpx2.Request) -> httpx2.Response:
        thing: Json = json.loads(request.content)
        if thing["kind"] == "SelfSubjectAccessReview":
            return httpx2.Response(201, json={**thing, "status": {"allowed": True}})
        if "dryRun" not in request.url.params:
            self.created.append(thing["kind"])
        metadata = {**thing["metadata"], "uid": f"uid-{len(self.created)}"}
        return httpx2.Response(201, json={**thing, "metadata": metadata})


def is_write(request: httpx2.Request, kind: str) -> bool:
    """Return whether a request creates an object of a kind, such as `jobs`."""
    return request.method == "POST" and request.url.path.endswith(f"/{kind}")
