"""Create exactly one machine per attempt, despite timeouts, retries and lists that lag.

`LaunchCipher` encrypts the launch request into the handle, because a restarted server needs the ticket to reach an
attempt whose machine exists already: such an attempt is not launched again.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import math
import time
import uuid
from dataclasses import asdict
from typing import Any

from anygpu.backends.contract import LaunchRequest
from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.machines import ALIVE, MachineListing, OwnedMachines, select_machine
from anygpu.backends.vm.provider import CloudMachine, MachineOrder
from anygpu.errors import LaunchError, LaunchRefused, RateLimited
from anygpu.spec.sections import Resources


def startup_script(life_s: float) -> str:
    """Runs as root by cloud-init. The same for the same life, so that an order repeated is the same order."""
    minutes = max(1, math.ceil(life_s / 60))
    return f"#!/bin/sh\nshutdown -h +{minutes} 'anygpu: the life of this machine is over'\n"


class LaunchCipher:
    """Only a server with the same secret can open what this closes."""

    def __init__(self, secret: bytes) -> None:
        self._key = base64.urlsafe_b64encode(hmac.new(secret, b"sealed launches", hashlib.sha256).digest())

    def encrypt(self, launch: LaunchRequest) -> str:
        plain = {**asdict(launch), "resources": launch.resources.model_dump(mode="json")}
        return str(self._fernet().encrypt(json.dumps(plain).encode()).decode())

    def decrypt(self, sealed: str) -> LaunchRequest | None:
        """None when it was sealed by somebody else or is damaged."""
        from cryptography.fernet import InvalidToken

        try:
            plain = json.loads(self._fernet().decrypt(sealed))
        except InvalidToken:
            return None
        return LaunchRequest(**{**plain, "resources": Resources.model_validate(plain["resources"])})

    def _fernet(self) -> Any:
        from cryptography.fernet import Fernet  # costs 50 ms, which a server without machines saves

        return Fernet(self._key)


REFUSALS = (LaunchError, RateLimited)  # the provider has said no: nothing was made


class MachineCreator:
    """Where the provider knows idempotency keys it is trusted with them; elsewhere the list decides."""

    def __init__(
        self, machines: OwnedMachines, listing: MachineListing, *, idempotent: bool, lag_s: float
    ) -> None:
        self._machines = machines
        self._listing = listing
        self._idempotent = idempotent
        self._lag_s = lag_s
        self._started_at = asyncio.get_running_loop().time()
        self._started_at_ms = time.time() * 1000

    async def find_or_create(self, attempt: VmAttempt, order: MachineOrder) -> CloudMachine:
        """The machine of this name: found or made. An error that is not `CERTAIN` leaves it unknown."""
        if not self._idempotent:
            earlier = await self._find_earlier(attempt)
            if earlier is not None:
                return earlier
        return await self._create(attempt, order)

    async def _find_earlier(self, attempt: VmAttempt) -> CloudMachine | None:
        """What an earlier call made. Asked until no such call can show up any more: a create that timed out may
        have succeeded, and a list may lag behind it, so that creating again at once would make twins."""
        settled_at = max(attempt.may_appear_until, self._earlier_listed_at(attempt), attempt.first_seen_at)
        snapshot = await self._listing.newer_than(attempt.first_seen_at)
        while True:
            alive = [m for m in snapshot.named(attempt.name) if m.power in ALIVE]
            if alive:
                return select_machine(alive)
            if attempt.terminate_requested:
                raise LaunchRefused(f"{attempt.name} was ended before it was launched")
            if snapshot.began_at >= settled_at:
                return None
            snapshot = await self._listing.newer_than(asyncio.get_running_loop().time())

    def _earlier_listed_at(self, attempt: VmAttempt) -> float:
        """From when on a list shows what an earlier process ordered. A job younger than this one had no other."""
        job_id = attempt.launch.job_id if attempt.launch else ""
        return float("-inf") if _created_ms(job_id) > self._started_at_ms else self._started_at + self._lag_s

    async def _create(self, attempt: VmAttempt, order: MachineOrder) -> CloudMachine:
        clock = asyncio.get_running_loop()
        try:
            machine = await self._machines.create(order)
        except REFUSALS:
            attempt.was_refused = attempt.may_appear_until == float("-inf")
            raise
        except BaseException:  # a timeout, a cut connection, our own end: it may have been made
            attempt.may_appear_until = clock.time() + self._lag_s
            raise
        attempt.may_appear_until = clock.time() + self._lag_s
        return machine


def _created_ms(job_id: str) -> float:
    """The moment a UUIDv7 carries; long ago for any other id."""
    try:
        made = uuid.UUID(job_id)
    except ValueError:
        return float("-inf")
    return made.int >> 80 if made.version == 7 else float("-inf")
