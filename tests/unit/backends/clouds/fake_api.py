"""A vendor at the far end of httpx: answers from a table, and every request remembered."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from anygpu.backends.vm.provider import MachineOrder
from anygpu.events.offers import Offer

NAME = "anygpu-0198f3c27a107c3e9d2b5b1f6f0c1a2e-1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleOnly"
Answer = tuple[int, Any] | Exception | Callable[[httpx.Request], httpx.Response]


@dataclass
class FarEnd:
    """Answers by method and path; a list of answers is given out one by one, the last for ever."""

    answers: dict[str, Any]
    asked: list[httpx.Request] = field(default_factory=list)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers[f"{request.method} {request.url.path}"]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return httpx.Response(status, json=body) if body is not None else httpx.Response(status)

    def lines(self) -> list[str]:
        return [f"{request.method} {request.url.path}" for request in self.asked]

    def body(self, line: str) -> Any:
        """What the last such request carried."""
        request = next(r for r in reversed(self.asked) if f"{r.method} {r.url.path}" == line)
        return json.loads(request.content)

    def query(self, line: str) -> dict[str, str]:
        request = next(r for r in reversed(self.asked) if f"{r.method} {r.url.path}" == line)
        return dict(request.url.params)


def order(kind: str, region: str, *, gpu_count: int = 1, max_life_s: float | None = None) -> MachineOrder:
    offer = Offer(backend="b", name=kind, region=region, gpu_count=gpu_count)
    return MachineOrder(
        name=NAME,
        offer=offer,
        public_key=KEY,
        startup_script="#!/bin/sh\nshutdown -h +60\n",
        max_life_s=max_life_s,
    )
