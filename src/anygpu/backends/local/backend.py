"""Run attempts as detached agents on this machine.

The agents keep running when the server stops. A new server process finds them by their directories.
"""

import asyncio
import contextlib
import json
import math
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anygpu.agent import attempt_dir
from anygpu.agent.host import processes, slots
from anygpu.agent.host.gpus import query_gpus
from anygpu.agent.host.start import wait_for_end_report
from anygpu.agent.prepare.containers import search_runtime
from anygpu.backends.contract import (
    HostGpu,
    HostReport,
    LaunchRequest,
    MachineState,
    NativeRequest,
    Observation,
)
from anygpu.backends.host_gpus import GpuModelGroup, cards_of_kind, group_gpus
from anygpu.backends.local.agents import (
    AGENT,
    ExitWatcher,
    PrewarmedAgent,
    PrewarmedPool,
    agent_environment,
    placeholder_env,
)
from anygpu.backends.relay.contract import RELAY_LEASE_S, RelayTransport
from anygpu.errors import BackendUnavailable, LaunchRefused, NoCapacity
from anygpu.events.offers import Handle, Offer
from anygpu.files import write_atomic
from anygpu.spec.sections import Resources

GIB = 1024**3
RUNTIME_SEARCH_EVERY_S = 60.0
RUNTIME_WAIT_S = 2.0
PREWARM_DELAY_S = 0.5  # prewarming must not slow down the job that has just started

Gpu = dict[str, Any]  # as `query_gpus` returns it


class LocalBackend:
    """Runs attempts on this machine, without root and without Docker."""

    name = "local"
    probe_every_s = 0.0

    def __init__(
        self,
        attempts: Path,
        *,
        gpu_locks: Path,
        cpus: int | None = None,
        single_server: bool = True,
        on_exit: Callable[[str], None] = lambda name: None,
        relay: RelayTransport | None = None,
    ) -> None:
        """Create the backend.

        `single_server`: no other server uses the same journal, so an attempt that is not found on this
        machine does not exist. `on_exit` is called with the name of an attempt whose agent has exited. With a `relay`,
        agents use it instead of the address of the server.
        """
        self._attempts = attempts
        self.relay = relay
        self._single_server = single_server
        self._gpu_locks = gpu_locks
        self._cpu_count = cpus or os.cpu_count() or 1
        self._cpu_slots = slots.cpu_slots(str(attempts), self._cpu_count)
        self._gpus: list[Gpu] | None = None
        self._runtime_search: asyncio.Task[None] | None = None
        self._can_run_images = False  # as the last search for a container program found
        self._searched_at = -math.inf
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._deliveries: list[subprocess.Popen[bytes]] = []
        self._exit_watcher = ExitWatcher(on_exit)
        self._prewarmed = PrewarmedPool(self._start_prewarmed)
        self._closed = False
        attempts.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def offers(self, need: Resources) -> Sequence[Offer]:
        gpus = await self._get_gpus()
        missing = await asyncio.to_thread(_missing_modules)
        containers = await self._can_run_containers()
        groups = group_gpus(os.uname().nodename, gpus)
        machine = {
            "backend": self.name,
            "cpus": self._cpu_count,
            "memory_gib": round(_memory_gib(), 1),
            "disk_gib": round(_free_disk_gib(self._attempts)),
            "own": True,
            "containers": containers,
            "shared": True,
            "lease_s": RELAY_LEASE_S if self.relay is not None else 0,
            "missing_modules": tuple(sorted(missing)),
        }
        # A job without GPUs gets one offer for the whole machine, because all models share its CPUs.
        return [self._offer(group, need, machine) for group in (groups if _needs_gpu(need) else groups[:1])]

    def _offer(self, group: GpuModelGroup, need: Resources, machine: dict[str, Any]) -> Offer:
        free, reason = self._free_slots(need, group.cards, group.gpu_noun)
        return Offer(
            name=group.offer_name,
            gpu_kind=group.kind,
            gpu_count=len(group.cards),
            gpu_memory_gib=group.memory_gib,
            driver=group.driver,
            free=free,
            wait_reason=reason,
            **machine,
        )

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        directory = self._directory(launch.name)
        handle = Handle(name=launch.name, native=self._native_handle(directory))
        if self._is_agent_alive(directory) or (directory / "process.json").exists():
            return handle
        held_slots = self._hold_slots(launch.resources, cards_of_kind(await self._get_gpus(), offer.gpu_kind))
        try:
            self._write_ticket(directory, launch)
            self._start_agent(directory, launch, held_slots)
        except OSError as error:
            raise LaunchRefused(
                f"The server's machine could not start the agent of the job: {error}. Check its free disk space "
                "and memory."
            ) from error
        finally:
            held_slots.close()
        return handle

    async def probe(self, handle: Handle) -> Observation:
        self._reap(handle.name)
        directory = self._own_directory(handle)
        if not self._single_server and not directory.exists():
            return Observation(state=MachineState.ABSENT, detail="this server has not launched the attempt")
        if self._is_agent_alive(directory):
            self._exit_watcher.watch(handle.name, directory)
            return Observation(state=MachineState.RUNNING, detail="the agent runs")
        if handle.name in self._children:
            return Observation(state=MachineState.PENDING, detail="the agent starts")
        left = (await asyncio.to_thread(processes.processes_by_attempt)).get(handle.name, [])
        if left:
            return Observation(
                state=MachineState.EXITED, detail=f"the agent died; processes {left} still run"
            )
        return Observation(state=MachineState.GONE, detail="no process of the attempt runs")

    async def terminate(self, handle: Handle) -> None:
        await asyncio.to_thread(wait_for_end_report, str(self._own_directory(handle)))
        if handle.name in self._children:
            self._children[handle.name].kill()  # a prewarmed agent may not carry its name yet
        gone = await asyncio.to_thread(processes.kill_attempt, handle.name)
        self._reap(handle.name)
        if not gone:
            raise BackendUnavailable(
                f"Processes of the attempt {handle.name} on the server's machine still run after SIGKILL. They "
                "may be waiting for a device; if they stay, restart the machine."
            )

    async def inventory(self) -> Sequence[Handle]:
        alive = await asyncio.to_thread(processes.processes_by_attempt)
        await asyncio.to_thread(attempt_dir.remove_old_attempts, str(self._attempts), alive, time.time())
        mine = [name for name in alive if self._directory(name).is_dir()]
        return [Handle(name=name) for name in sorted(mine)]

    async def deliver(self, handle: Handle) -> None:
        """Start a process that sends the reports that a dead agent left on disk."""
        directory = self._directory(handle.name)
        if (directory / "work.json").exists():
            self._deliveries.append(self._start_process(["--deliver", str(directory)], directory, {}, ()))

    async def hosts(self) -> Sequence[HostReport]:
        """Describe this machine."""
        gpus = await self._get_gpus()
        locks = slots.gpu_slots([gpu["uuid"] for gpu in gpus], str(self._gpu_locks)) if gpus else []
        free = set(slots.free_labels(locks))
        return [
            HostReport(
                offer=os.uname().nodename,
                cpus=self._cpu_count,
                free_cpus=len(slots.free_labels(self._cpu_slots)),
                memory_gib=round(_memory_gib(), 1),
                gpus=tuple(HostGpu(**gpu, free=gpu["uuid"] in free) for gpu in gpus),
            )
        ]

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        """Show the ticket file and the command of the agent. Nothing is reserved for it."""
        directory = self._directory(launch.name)
        variables = _agent_variables(launch, ["(locks)"], ["(the UUIDs of the reserved GPUs)"])
        words = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        command = " ".join([*words, shlex.join(_agent_command(str(directory)))])
        return [
            NativeRequest.of_json(f"{directory}/ticket.json", _ticket_content(launch.without_secrets())),
            NativeRequest(title="process on the server's machine", language="sh", text=f"{command}\n"),
        ]

    def prewarm(self) -> None:
        """Start an agent process in advance, for the next job.

        Linux only: on other systems such a process cannot be found by the name of its attempt.
        """
        if sys.platform == "linux":
            self._prewarmed.prepare()

    def close(self) -> None:
        """Stop watching the agents. They keep running."""
        self._closed = True
        self._exit_watcher.close()
        if self._runtime_search is not None:
            self._runtime_search.cancel()
        self._prewarmed.close()
        for child in (*self._children.values(), *self._deliveries):
            if child.poll() is None:
                child.returncode = 0  # prevents Popen's warning about a running child

    # -- launch -----------------------------------------------------------------------------------------------

    def _native_handle(self, directory: Path) -> dict[str, str]:
        return {"directory": str(directory), "host": os.uname().nodename}

    def _own_directory(self, handle: Handle) -> Path:
        """Return the attempt's directory on this machine.

        Raise `BackendUnavailable` if the attempt was launched by another server that uses the same database.
        """
        directory = self._directory(handle.name)
        if handle.native and handle.native != self._native_handle(directory):
            host = handle.native.get("host", "another machine")
            raise BackendUnavailable(
                f"The attempt {handle.name} was launched by another anygpu server, on {host}. Only that server "
                "can manage it; start it again."
            )
        return directory

    def _directory(self, name: str) -> Path:
        if "/" in name or name.startswith("."):
            raise LaunchRefused(
                f"{name!r} is not a valid name of an attempt: it contains '/' or starts with '.'. This is a bug "
                "in anygpu; report it."
            )
        return self._attempts / name

    def _write_ticket(self, directory: Path, launch: LaunchRequest) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        write_atomic(directory / "ticket.json", json.dumps(_ticket_content(launch)).encode())

    def _start_agent(self, directory: Path, launch: LaunchRequest, held_slots: slots.HeldSlots) -> None:
        env = _agent_variables(launch, [*map(str, held_slots.fds)], held_slots.labels)
        prewarmed = self._prewarmed.take()
        if prewarmed is not None and self._assign_prewarmed(
            prewarmed, launch.name, directory, env, held_slots.fds
        ):
            self._children[launch.name] = prewarmed.process
        else:
            self._children[launch.name] = self._start_process(
                [str(directory)], directory, env, held_slots.fds
            )
        asyncio.get_running_loop().call_later(PREWARM_DELAY_S, self._prewarm_next)

    def _prewarm_next(self) -> None:
        if not self._closed:
            self.prewarm()

    def _assign_prewarmed(
        self, prewarmed: PrewarmedAgent, name: str, directory: Path, env: dict[str, str], fds: tuple[int, ...]
    ) -> bool:
        with (directory / "agent.log").open("ab") as log:
            return prewarmed.assign(name, directory, env, (log.fileno(), *fds))

    def _start_prewarmed(self, channel: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            _agent_command("--spare"),
            stdin=channel.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**agent_environment(), **placeholder_env()},
            cwd=self._attempts,
            start_new_session=True,
        )

    def _start_process(
        self, arguments: list[str], directory: Path, env: dict[str, str], fds: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        with (directory / "agent.log").open("ab") as log:
            return subprocess.Popen(
                _agent_command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**agent_environment(), **env},
                cwd=directory,
                pass_fds=fds,
                start_new_session=True,
            )

    def _hold_slots(self, need: Resources, gpus: Sequence[Mapping[str, Any]]) -> slots.HeldSlots:
        pool, count = self._slot_pool(need, gpus)
        held_slots = slots.hold_slots(pool, count)
        if held_slots is None:
            raise NoCapacity(self._free_slots(need, gpus)[1])
        return held_slots

    # -- probe ------------------------------------------------------------------------------------------------

    def _is_agent_alive(self, directory: Path) -> bool:
        """Return whether the agent of this directory still runs: it holds a lock on the directory while it runs."""
        lock = directory / "agent.lock"
        return lock.exists() and not slots.free_labels([slots.Slot("agent", str(lock))])

    def _reap(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            del self._children[name]
        self._deliveries = [courier for courier in self._deliveries if courier.poll() is None]

    async def _get_gpus(self) -> list[Gpu]:
        if self._gpus is None:
            gpus, _ = await asyncio.to_thread(query_gpus)
            self._gpus = gpus
            if gpus:
                with contextlib.suppress(FileExistsError):
                    self._gpu_locks.mkdir(parents=True, mode=0o777)
        return self._gpus

    async def _can_run_containers(self) -> bool:
        """Return whether docker or podman works here.

        The first call waits for the answer, because a job with an image is refused if there is no container program.
        Later calls return the last answer and search again in the background.
        """
        due = time.monotonic() - self._searched_at > RUNTIME_SEARCH_EVERY_S
        if due and self._runtime_search is None:
            self._runtime_search = asyncio.create_task(self._search_runtime())
        if self._runtime_search is not None and self._searched_at == -math.inf:
            await asyncio.wait([self._runtime_search], timeout=RUNTIME_WAIT_S)
        return self._can_run_images

    async def _search_runtime(self) -> None:
        try:
            runtime, _ = await asyncio.to_thread(search_runtime)
            self._can_run_images = runtime is not None
        finally:
            self._searched_at, self._runtime_search = time.monotonic(), None

    def _slot_pool(
        self, need: Resources, gpus: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[slots.Slot], int]:
        if need.gpu and need.gpu.count:
            return slots.gpu_slots([gpu["uuid"] for gpu in gpus], str(self._gpu_locks)), need.gpu.count
        return self._cpu_slots, max(1, math.ceil(need.cpus or 1))

    def _free_slots(
        self, need: Resources, gpus: Sequence[Mapping[str, Any]], gpu_noun: str = "GPU"
    ) -> tuple[int, str]:
        """Return how many attempts with these resources could start now, and why none can ("" if one can)."""
        pool, count = self._slot_pool(need, gpus)
        free = len(slots.free_labels(pool))
        what = gpu_noun if _needs_gpu(need) else "CPU slot"
        reason = f"{free} of {len(pool)} {what}s of the server's machine are free, and the job needs {count}"
        return free // count, "" if free >= count else reason


def _needs_gpu(need: Resources) -> bool:
    return need.gpu is not None and need.gpu.count > 0


def _missing_modules() -> frozenset[str]:
    from anygpu.trainers.registry import missing_modules  # the start of a server must not load the trainers

    return missing_modules()


def _ticket_content(launch: LaunchRequest) -> dict[str, Any]:
    if launch.relay:
        return {"protocol": 1, "name": launch.name, "ticket": launch.ticket, "relay": launch.relay[0]}
    return launch.direct_ticket()


def _agent_variables(launch: LaunchRequest, locks: Sequence[str], gpus: Sequence[str]) -> dict[str, str]:
    # A job without GPUs must not use those of another job.
    needs_gpus = launch.resources.gpu is not None and launch.resources.gpu.count > 0
    return {
        "ANYGPU_NAME": launch.name,
        "ANYGPU_HOLD_FDS": ",".join(locks),
        "CUDA_VISIBLE_DEVICES": ",".join(gpus) if needs_gpus else "",
    }


def _agent_command(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(AGENT), *arguments]


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def _free_disk_gib(path: Path) -> float:
    return shutil.disk_usage(path).free / GIB
