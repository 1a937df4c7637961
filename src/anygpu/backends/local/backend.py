"""Attempts as detached agents on this machine. They survive the server and are found again by their directories."""

import asyncio
import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anygpu.agent
from anygpu.agent import attempt_dir
from anygpu.agent.host import processes, slots
from anygpu.backends.contract import Launch, Observation, State
from anygpu.backends.local import host
from anygpu.backends.local.spares import Spare, Spares, placeholder
from anygpu.backends.local.watching import ExitWatch
from anygpu.errors import BackendUnavailable, LaunchRefused, NoCapacity
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

AGENT = Path(anygpu.agent.__file__).with_name("__main__.py")
AFTER_LAUNCH_S = 0.5  # the next spare must not slow the job that has just taken this one
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SHELL", "LD_LIBRARY_PATH")
PASSED_FAMILIES = ("LC_", "CUDA_", "NVIDIA_", "XDG_")


class LocalBackend:
    """Runs attempts here: no root, no Docker."""

    name = "local"
    probe_every_s = 0.0

    def __init__(
        self,
        attempts: Path,
        *,
        gpu_locks: Path,
        cpus: int | None = None,
        alone: bool = True,
        on_exit: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`alone`: no other server shares our journal, so an attempt that is not here is nowhere."""
        self._attempts = attempts
        self._alone = alone
        self._gpu_locks = gpu_locks
        self._cpu_count = cpus or os.cpu_count() or 1
        self._cpu_slots = slots.cpu_slots(str(attempts), self._cpu_count)
        self._cards: tuple[host.GpuCard, ...] | None = None
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._couriers: list[subprocess.Popen[bytes]] = []
        self._exits = ExitWatch(on_exit)
        self._spares = Spares(self._start_spare)
        self._closed = False
        attempts.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def offers(self, need: Resources) -> Sequence[Offer]:
        cards = await self._gpus()
        free, reason = self._free(need, cards)
        return [
            Offer(
                backend=self.name,
                name=os.uname().nodename,
                gpu_kind=cards[0].kind if cards else "",
                gpu_count=len(cards),
                gpu_memory_gib=min((card.memory_gib for card in cards), default=0),
                cpus=self._cpu_count,
                memory_gib=round(host.memory_gib(), 1),
                disk_gib=round(host.disk_gib(self._attempts)),
                free=free,
                wait_reason=reason,
                driver=cards[0].driver if cards else "",
            )
        ]

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        directory = self._directory(launch.name)
        handle = Handle(name=launch.name, native=self._here(directory))
        if self._agent_lives(directory) or (directory / "process.json").exists():
            return handle
        held = self._hold(launch.resources, await self._gpus())
        try:
            self._write_ticket(directory, launch)
            self._spawn(directory, launch, held)
        except OSError as error:
            raise LaunchRefused(f"this machine could not start the agent: {error}") from error
        finally:
            held.close()
        return handle

    async def probe(self, handle: Handle) -> Observation:
        self._reap(handle.name)
        directory = self._mine(handle)
        if not self._alone and not directory.exists():
            return Observation(state=State.ABSENT, detail="never launched by this server")
        if self._agent_lives(directory):
            self._exits.watch(handle.name, directory)
            return Observation(state=State.RUNNING, detail="the agent runs")
        if handle.name in self._children:
            return Observation(state=State.PENDING, detail="the agent starts")
        left = (await asyncio.to_thread(processes.processes_by_attempt)).get(handle.name, [])
        if left:
            return Observation(state=State.EXITED, detail=f"the agent died; processes {left} are left")
        return Observation(state=State.GONE, detail="no process is left")

    async def terminate(self, handle: Handle) -> None:
        self._mine(handle)
        if handle.name in self._children:
            self._children[handle.name].kill()  # one that was started ahead may not carry its name yet
        gone = await asyncio.to_thread(processes.kill_attempt, handle.name)
        self._reap(handle.name)
        if not gone:
            raise BackendUnavailable(f"processes of {handle.name} do not die; they may wait for a device")

    async def inventory(self) -> Sequence[Handle]:
        alive = await asyncio.to_thread(processes.processes_by_attempt)
        await asyncio.to_thread(attempt_dir.remove_old_attempts, str(self._attempts), alive, time.time())
        mine = [name for name in alive if self._directory(name).is_dir()]
        return [Handle(name=name) for name in sorted(mine)]

    async def deliver(self, handle: Handle) -> None:
        """Send what a dead agent left behind."""
        directory = self._directory(handle.name)
        if (directory / "work.json").exists():
            self._couriers.append(self._start(["--deliver", str(directory)], directory, {}, ()))

    def start_ahead(self) -> None:
        """Have an agent ready for the next job, where the kernel lets one be found that was started ahead."""
        if sys.platform == "linux":
            self._spares.prepare()

    def close(self) -> None:
        """Let go of the agents, which go on without us."""
        self._closed = True
        self._exits.close()
        self._spares.close()
        for child in (*self._children.values(), *self._couriers):
            if child.poll() is None:
                child.returncode = 0  # not ours to wait for any more

    # -- starting ---------------------------------------------------------------------------------------------

    def _here(self, directory: Path) -> dict[str, str]:
        return {"directory": str(directory), "host": os.uname().nodename}

    def _mine(self, handle: Handle) -> Path:
        """Servers that share a journal each have a machine called local; one must not speak for another's."""
        directory = self._directory(handle.name)
        if handle.native and handle.native != self._here(directory):
            host = handle.native.get("host", "another machine")
            raise BackendUnavailable(f"{handle.name} runs under another server, on {host}")
        return directory

    def _directory(self, name: str) -> Path:
        if "/" in name or name.startswith("."):
            raise LaunchRefused(f"{name!r} is not an attempt's name")
        return self._attempts / name

    def _write_ticket(self, directory: Path, launch: Launch) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        ticket = {"protocol": 1, "url": launch.agent_url, "name": launch.name, "ticket": launch.ticket}
        draft = directory / "ticket.json.tmp"
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(ticket))
        draft.replace(directory / "ticket.json")

    def _spawn(self, directory: Path, launch: Launch, held: slots.HeldSlots) -> None:
        env = {"ANYGPU_NAME": launch.name, "ANYGPU_HOLD_FDS": ",".join(map(str, held.fds))}
        spare = self._spares.take()
        if launch.resources.gpu and launch.resources.gpu.count:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(held.labels)
        else:
            env["CUDA_VISIBLE_DEVICES"] = ""  # a job that asked for no GPU must not sit on somebody else's
        if spare is not None and self._handed_over(spare, launch.name, directory, env, held.fds):
            self._children[launch.name] = spare.process
        else:
            self._children[launch.name] = self._start([str(directory)], directory, env, held.fds)
        asyncio.get_running_loop().call_later(AFTER_LAUNCH_S, self._refill)

    def _refill(self) -> None:
        if not self._closed:
            self.start_ahead()

    def _handed_over(
        self, spare: Spare, name: str, directory: Path, env: dict[str, str], fds: tuple[int, ...]
    ) -> bool:
        with (directory / "agent.log").open("ab") as log:
            return spare.hand_over(name, directory, env, (log.fileno(), *fds))

    def _start_spare(self, channel: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(AGENT), "--spare"],
            stdin=channel.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**_surroundings(), **placeholder()},
            cwd=self._attempts,
            start_new_session=True,
        )

    def _start(
        self, arguments: list[str], directory: Path, env: dict[str, str], fds: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        with (directory / "agent.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(AGENT), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_surroundings(), **env},
                cwd=directory,
                pass_fds=fds,
                start_new_session=True,
            )

    def _hold(self, need: Resources, cards: Sequence[host.GpuCard]) -> slots.HeldSlots:
        pool, count = self._pool(need, cards)
        held = slots.hold_slots(pool, count)
        if held is None:
            raise NoCapacity(self._free(need, cards)[1])
        return held

    # -- looking ----------------------------------------------------------------------------------------------

    def _agent_lives(self, directory: Path) -> bool:
        """The agent holds a lock for as long as it lives."""
        lock = directory / "agent.lock"
        return lock.exists() and not slots.free_labels([slots.Slot("agent", str(lock))])

    def _reap(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            del self._children[name]
        self._couriers = [courier for courier in self._couriers if courier.poll() is None]

    async def _gpus(self) -> tuple[host.GpuCard, ...]:
        if self._cards is None:
            self._cards = await asyncio.to_thread(host.gpu_cards)
            if self._cards:
                with contextlib.suppress(FileExistsError):
                    self._gpu_locks.mkdir(parents=True, mode=0o777)
        return self._cards

    def _pool(self, need: Resources, cards: Sequence[host.GpuCard]) -> tuple[Sequence[slots.Slot], int]:
        if need.gpu and need.gpu.count:
            return slots.gpu_slots([card.uuid for card in cards], str(self._gpu_locks)), need.gpu.count
        return self._cpu_slots, max(1, math.ceil(need.cpus or 1))

    def _free(self, need: Resources, cards: Sequence[host.GpuCard]) -> tuple[int, str]:
        """How many such attempts could start now, and what a job would wait for if none."""
        pool, count = self._pool(need, cards)
        free = len(slots.free_labels(pool))
        what = "GPU" if need.gpu and need.gpu.count else "CPU slot"
        reason = f"{free} of {len(pool)} {what}s here are free, the job needs {count}"
        return free // count, "" if free >= count else reason


def _surroundings() -> dict[str, str]:
    """The agent's environment holds none of the server's secrets, since the job could read it."""
    return {k: v for k, v in os.environ.items() if k in PASSED_ON or k.startswith(PASSED_FAMILIES)}
