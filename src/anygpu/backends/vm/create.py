"""Create exactly one machine per attempt, even if requests time out or the provider lists machines late.

The launch request is encrypted into the handle (`LaunchCipher`). A restarted server does not launch an
attempt again whose machine exists, but it needs the ticket in the request to connect to that machine.
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
    """Return a script for cloud-init that shuts the machine down after `life_s` seconds.

    The script depends only on `life_s`, because a repeated order must be equal to the first one.
    """
    minutes = max(1, math.ceil(life_s / 60))
    return f"#!/bin/sh\nshutdown -h +{minutes} 'anygpu: maximum lifetime reached'\n"


class LaunchCipher:
    """Encrypts launch requests with a key derived from the server's secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = base64.urlsafe_b64encode(hmac.new(secret, b"sealed launches", hashlib.sha256).digest())

    def encrypt(self, launch: LaunchRequest) -> str:
        plain = {**asdict(launch), "resources": launch.resources.model_dump(mode="json")}
        return str(self._fernet().encrypt(json.dumps(plain).encode()).decode())

    def decrypt(self, sealed: str) -> LaunchRequest | None:
        """Return the launch request; None if it is damaged or was encrypted with another secret."""
        from cryptography.fernet import InvalidToken

        try:
            plain = json.loads(self._fernet().decrypt(sealed))
        except InvalidToken:
            return None
        lists = {name: tuple(plain.get(name) or ()) for name in ("agent_urls", "relay")}
        return LaunchRequest(**{**plain, **lists, "resources": Resources.model_validate(plain["resources"])})

    def _fernet(self) -> Any:
        from cryptography.fernet import Fernet  # a slow import (50 ms)

        return Fernet(self._key)


REFUSALS = (LaunchError, RateLimited)  # the provider refused: nothing was created


class MachineCreator:
    """Creates one machine per name.

    Uses the provider's idempotency key if it has one; otherwise checks first whether the machine is in the
    provider's list.
    """

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
        """Return the machine of the attempt; create it if it does not exist.

        After an error in `REFUSALS` there is no new machine. After any other error there may be one.
        """
        if not self._idempotent:
            earlier = await self._find_earlier(attempt)
            if earlier is not None:
                return earlier
        return await self._create(attempt, order)

    async def _find_earlier(self, attempt: VmAttempt) -> CloudMachine | None:
        """Return the machine that an earlier call created, or None if there is none.

        A create call that timed out may have succeeded, and the provider's list may not show its machine yet.
        So this waits until the list would show such a machine; otherwise a second machine would be created.
        """
        settled_at = max(attempt.may_appear_until, self._earlier_listed_at(attempt), attempt.first_seen_at)
        snapshot = await self._listing.newer_than(attempt.first_seen_at)
        while True:
            alive = [m for m in snapshot.of_attempt(attempt.name) if m.power in ALIVE]
            if alive:
                return select_machine(alive)
            if attempt.terminate_requested:
                raise LaunchRefused(
                    f"The attempt {attempt.name} was stopped before its machine was created; no action is needed"
                )
            if snapshot.began_at >= settled_at:
                return None
            snapshot = await self._listing.newer_than(asyncio.get_running_loop().time())

    def _earlier_listed_at(self, attempt: VmAttempt) -> float:
        """Return the time from which the provider's list shows all machines of earlier server processes.

        The time is that of the event loop's clock. A job that was submitted after this process started has no
        such machines: the result is -inf.
        """
        job_id = attempt.launch.job_id if attempt.launch else ""
        return float("-inf") if _created_ms(job_id) > self._started_at_ms else self._started_at + self._lag_s

    async def _create(self, attempt: VmAttempt, order: MachineOrder) -> CloudMachine:
        clock = asyncio.get_running_loop()
        try:
            machine = await self._machines.create(order)
        except REFUSALS:
            attempt.was_refused = attempt.may_appear_until == float("-inf")
            raise
        except BaseException:  # timeout, lost connection, cancellation: the machine may exist
            attempt.may_appear_until = clock.time() + self._lag_s
            raise
        attempt.may_appear_until = clock.time() + self._lag_s
        return machine


def _created_ms(job_id: str) -> float:
    """Return the creation time in a UUIDv7, in Unix milliseconds; -inf for any other id."""
    try:
        made = uuid.UUID(job_id)
    except ValueError:
        return float("-inf")
    return made.int >> 80 if made.version == 7 else float("-inf")
