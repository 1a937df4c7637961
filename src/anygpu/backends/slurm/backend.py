"""A Slurm cluster, over SSH to its login node or with local commands. Needs no daemon and no root on the cluster.

An attempt is one Slurm job whose batch script starts the agent. Files are on the cluster's shared file system.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anygpu.backends.contract import AccountStatus, LaunchRequest, MachineState, NativeRequest, Observation
from anygpu.backends.options import configured_credentials
from anygpu.backends.owner import owner_tag
from anygpu.backends.registry import BackendContext
from anygpu.backends.relay.contract import NO_RELAYS, Relays, RelayTransport
from anygpu.backends.relay.directory import DirectoryRelay
from anygpu.backends.relay.ssh import SshRelay
from anygpu.backends.slurm import script, states
from anygpu.backends.slurm.account import check_cluster
from anygpu.backends.slurm.limits import SubmissionLimits
from anygpu.backends.slurm.offers import NodeGroup, build_offer, free_slots, node_groups, with_wait
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import SlurmJob
from anygpu.backends.slurm.queries import ClusterFacts, ClusterQueries
from anygpu.backends.slurm.refusals import Refusal, classify_refusal, describe_exceeded_limit
from anygpu.backends.slurm.script import ClusterPlace
from anygpu.backends.slurm.shell import ClusterOutcomeUnknown, ClusterShell, LocalShell, ShellResult, SshShell
from anygpu.backends.slurm.waits import WaitEstimator
from anygpu.backends.ssh.bootstrap import AgentArchive, agent_archive
from anygpu.backends.ssh.connection import SshConnector, SshLogin, SshTiming, open_tunnel
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.options import split_address
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchRefused, NoQuota
from anygpu.events.offers import Handle, Offer
from anygpu.printable import printable_line
from anygpu.spec.sections import Resources

Options = SlurmOptions  # the registry finds the options by this name
NEEDED_MODULES: tuple[str, ...] = ()
EXTRA = ""
DELIVERY_TIMEOUT_S = 3_600.0
# Slurm may take a while to kill a hanging agent. What is still left after these pauses waits for the next clean-up.
DELIVERY_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
MAX_DELIVERIES = 2  # at the same time: they take long, and must not use up the sessions of the shell
UPLOAD_TIMEOUT_S = 300.0
LOG_BYTES, LOG_LINES = 2_000, 5
CLEANUP_EVERY_S = 3_600.0
DELIVERED_DAYS, UNDELIVERED_DAYS = 1, 30
MAX_REMEMBERED = 2_000
IDLE_POLLS = 3
ENDING_PAUSES = (0.25, 0.25, 0.5)  # between queries after a job has begun to end, as parts of `poll_s`
SUBMITTED_STATE = ("PENDING", 0)  # and restarts
SUBMITTED_S = 1.0  # after a submission: queries would only slow down the start of the job


async def open_backend(name: str, options: SlurmOptions, context: BackendContext) -> "SlurmBackend":
    return SlurmBackend(
        name,
        options,
        secret=context.secret,
        agent_target=context.agent_target,
        shell=open_shell(name, options, HostKeyStore(context.pins)),
        on_change=context.on_change,
        relays=context.relays,
    )


def ambient(options: SlurmOptions) -> bool:
    """Return whether the backend logs in with the server's own keys, or runs commands on the server's machine."""
    return options.host is None or not configured_credentials(options)


def open_shell(
    name: str, options: SlurmOptions, pins: HostKeyStore, timing: SshTiming | None = None
) -> ClusterShell:
    """Return the shell that runs the commands of Slurm: on the login node, or on the server's machine."""
    if options.host is None:
        return LocalShell()
    user, host, port = split_address(options.host)
    login = SshLogin(
        machine=name,
        host=host,
        port=port,
        user=user,
        private_key=options.private_key.get_secret_value(),
        identity=options.identity,
        host_keys=options.host_keys,
    )
    return SshShell(login, SshConnector(pins, timing))


class SlurmBackend:
    """Runs attempts as Slurm jobs. The name of the Slurm job is that of the attempt; its comment names the server.

    While jobs of this server are in the queue, a task reads the queue every `poll_s` seconds and reports changes. A
    probe uses what the task has read.
    """

    probe_every_s = 0.0

    def __init__(
        self,
        name: str,
        options: SlurmOptions,
        *,
        secret: bytes,
        agent_target: tuple[str, int],
        shell: ClusterShell,
        on_change: Callable[[str], None] = lambda name: None,
        relays: Relays = NO_RELAYS,
    ) -> None:
        self.name = name
        self._options = options
        self._agent_target = agent_target
        self._on_change = on_change
        self._shell = shell
        # The label must not change: comments of Slurm jobs and directories on the cluster have the owner id.
        self._owner = owner_tag(secret, "owner of slurm jobs")
        self._queries = ClusterQueries(shell, options)
        self._waits = WaitEstimator(shell, options)
        self._limits = SubmissionLimits()
        self._changed_at: dict[str, float] = {}  # when this process submitted or cancelled an attempt
        self._submitted_at: dict[str, float] = {}
        self._cancelled: dict[str, None] = {}
        self._refused: dict[str, None] = {}  # attempts for which Slurm had too many jobs
        self._states: dict[str, tuple[str, int]] = {}
        self._ending_since: dict[int, float] = {}
        self._logs: dict[int, tuple[str, ...]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._delivering: set[str] = set()
        self._deliveries = asyncio.Semaphore(MAX_DELIVERIES)
        self._polling: asyncio.Task[None] | None = None
        self._tunnel: tuple[object, int] | None = (
            None  # the connection, and the tunnel's port on the login node
        )
        self._cleanup_at = time.monotonic() + CLEANUP_EVERY_S
        self.relay = self._choose_relay(relays)  # through which agents reach the server; None: directly

    def _choose_relay(self, relays: Relays) -> RelayTransport | None:
        if self._options.relay != "cluster":
            return relays.choose(self._options.relay)
        path = f"{self._options.root}/relay/{self._owner}"
        if isinstance(self._shell, SshShell):
            shell = self._shell
            python = self._options.python
            return SshRelay(shell.connection, path, machine=shell.name, python=python, poll_s=relays.poll_s)
        return DirectoryRelay(Path(path).expanduser(), poll_s=relays.poll_s)

    # -- offers -----------------------------------------------------------------------------------------------

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Return one offer for each partition and kind of node.

        Busy ones have the wait that Slurm expects. If the options may exclude nodes, Slurm is asked about idle ones
        too.
        """
        facts = self._usable_facts(await self._queries.recent_facts())
        groups = node_groups(facts, self._options)
        made = [build_offer(group, facts, need, backend=self.name, options=self._options) for group in groups]
        offers = [self._limits.apply(offer, need.nodes) for offer in made]
        pairs = list(zip(groups, offers, strict=True))
        idle = {offer.name for group, offer in pairs if free_slots(group, need)}
        uncertain = [
            offer
            for group, offer in pairs
            if not offer.is_full
            and _could_fit(group, need)
            and (self._options.may_exclude_nodes or offer.name not in idle)
        ]
        if not uncertain:
            return offers
        waits = await self._waits.waits(uncertain, need, self._place(facts), facts.now_s)
        return [
            with_wait(offer, waits[offer.name], is_idle=offer.name in idle) if offer.name in waits else offer
            for offer in offers
        ]

    def _usable_facts(self, facts: ClusterFacts) -> ClusterFacts:
        """Return the facts without the reservation that the jobs of this backend use."""
        own = [text.partition("=")[2] for text in self._options.sbatch_options if "--reservation=" in text]
        return replace(facts, reservations=tuple(r for r in facts.reservations if r.name not in own))

    # -- launch -----------------------------------------------------------------------------------------------

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Submit the Slurm job of an attempt, unless one of its name exists."""
        place, archive = await self._find_place(), await agent_archive()
        agent = place.agent(archive.sha256)
        text = script.batch_script(launch, offer, self._options, place, agent)
        program = script.submit_program(launch, offer, text, place, agent)
        began_at = time.monotonic()
        self._refused.pop(launch.name, None)
        done = await self._shell.run(program)
        if script.read_outcome(done.output)[0] == script.NEEDS_AGENT:
            await self._upload(archive, agent)
            done = await self._shell.run(program)
        self._remember_change(launch.name)
        try:
            self._raise_refusal(done)
        except NoQuota as error:
            self._limits.record_refusal(offer, str(error), began_at=began_at)
            if done.code == script.REFUSED_EXIT:
                _forget_oldest(self._refused)
                self._refused[launch.name] = None
            raise
        outcome, job_id = script.read_outcome(done.output)
        if outcome == script.ENDED:
            raise LaunchRefused(
                f"The attempt {launch.name} was ended before it was submitted; no action is needed"
            )
        if outcome not in (script.EXISTS, script.SUBMITTED) or job_id is None:
            raise ClusterOutcomeUnknown(
                f"sbatch printed no number of a job: {printable_line(done.output)[:200]!r}"
            )
        if outcome == script.SUBMITTED:
            _forget_oldest(self._submitted_at)
            self._submitted_at[launch.name] = time.monotonic()
            self._limits.record_acceptance(offer)
        return Handle(name=launch.name, native={"job": job_id})

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        """Return the batch script. The ticket is not in it, but in a file of the attempt's directory."""
        place, archive = await self._find_place(), await agent_archive()
        text = script.batch_script(launch, offer, self._options, place, place.agent(archive.sha256))
        return [NativeRequest(title=f"sbatch script on {self._shell.name}", language="sh", text=text)]

    async def _find_place(self) -> ClusterPlace:
        return self._place(await self._queries.facts(max_age_s=float("inf")))

    def _place(self, facts: ClusterFacts) -> ClusterPlace:
        return ClusterPlace(root=facts.root, owner=self._owner, kill_wait_s=facts.kill_wait_s)

    async def _upload(self, archive: AgentArchive, path: str) -> None:
        program = script.upload_program(path, len(archive.data))
        done = await self._shell.run(program, archive.data, timeout_s=UPLOAD_TIMEOUT_S)
        if done.code != 0:
            raise LaunchRefused(
                f"The agent could not be copied to {path} on {self._shell.name}: {printable_line(done.message)}",
                hint="Check the free space there, or set the option directory of the backend.",
            )

    def _raise_refusal(self, done: ShellResult) -> None:
        """Raise the error that fits the exit code of the submitting program and Slurm's message."""
        if done.code == 0:
            return
        text = printable_line(done.message)
        if done.code == script.NO_DIRECTORY_EXIT:
            raise LaunchRefused(
                f"The directory of the attempt could not be written on {self._shell.name}: {text}",
                hint="Check the free space there, or set the option directory of the backend.",
            )
        refusal = classify_refusal(text)
        if refusal is Refusal.OUTCOME_UNKNOWN:
            raise ClusterOutcomeUnknown(f"It is not known whether Slurm accepted the job: {text}")
        if done.code == script.NO_QUEUE_EXIT or refusal is Refusal.UNREACHABLE:
            raise BackendUnavailable(f"Slurm did not answer on {self._shell.name}: {text}")
        if refusal is Refusal.LIMIT:
            raise NoQuota(
                f"Slurm accepts no more jobs of this user now: {text}",
                hint="No action is needed: the job is submitted again later.",
            )
        exceeded = describe_exceeded_limit(text)
        if exceeded:
            raise LaunchRefused(f"Slurm refused the job: {exceeded}")
        raise LaunchRefused(
            f"Slurm refused the job: {text}",
            hint="Correct the options of the backend (account, qos, partitions, constraint).",
        )

    # -- probe ------------------------------------------------------------------------------------------------

    async def probe(self, handle: Handle) -> Observation:
        self._start_polling()
        if time.monotonic() - self._submitted_at.get(handle.name, -SUBMITTED_S) < SUBMITTED_S:
            return Observation(
                state=MachineState.PENDING, detail="the job was just submitted to Slurm", queued=True
            )
        newer_than = max(self._changed_at.get(handle.name, 0.0), time.monotonic() - self._options.poll_s)
        queue = await self._queries.queue(newer_than)
        self._report_changes(queue)
        jobs = queue.get(handle.name, ())
        await self._cancel_duplicates(handle.name, jobs)
        job = states.choose_job(jobs)
        if job is None:
            return await self._observe_unlisted(handle)
        if states.is_live(job):
            limit_s = self._options.start_limit_s
            return states.observe(job, ending_s=self._ending_s(job), start_limit_s=limit_s)
        return await self._observe_ended(job)

    def _ending_s(self, job: SlurmJob) -> float:
        """Return for how long this process has seen that Slurm is ending the job."""
        if job.state not in states.ENDING:
            self._ending_since.pop(job.id, None)
            return 0.0
        _forget_oldest(self._ending_since)
        return time.monotonic() - self._ending_since.setdefault(job.id, time.monotonic())

    def _start_polling(self) -> None:
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
            self._tasks.add(self._polling)
            self._polling.add_done_callback(self._tasks.discard)

    async def _poll(self) -> None:
        """Look at the queue until it has had no live job of this server for some time.

        Slurm says why a job ends only when all its processes have ended, which is usually a moment later. So the next
        queries come sooner after a job has begun to end.
        """
        idle, ending, pauses = 0, set[int](), list[float]()
        while idle < IDLE_POLLS:
            pause_s = self._options.poll_s * (pauses.pop(0) if pauses else 1.0)
            await asyncio.sleep(pause_s)
            try:
                queue = await self._queries.queue(time.monotonic() - pause_s / 2)
            except AnygpuError:
                continue  # the next probe reports the error
            self._report_changes(queue)
            live = [
                job for jobs in queue.values() for job in jobs if self._is_own(job) and states.is_live(job)
            ]
            before, ending = ending, {job.id for job in live if job.state in states.ENDING}
            if ending - before and not pauses:
                pauses = [*ENDING_PAUSES]
            idle = 0 if live else idle + 1

    async def _observe_ended(self, job: SlurmJob) -> Observation:
        ours = job.name in self._cancelled
        if job.state == "CANCELLED" and not ours and not job.by:
            known = await self._queries.ended_job(job.name)
            if known is not None and known.id == job.id:
                job = replace(job, by=known.by)
        log = await self._read_log(job) if job.state == "FAILED" and not ours else ()
        return states.observe(job, log=log, cancelled_by_us=ours)

    async def _observe_unlisted(self, handle: Handle) -> Observation:
        """Describe an attempt that squeue does not list.

        The queue has every job that waits or runs, at once. So a job that was submitted and is not in it has ended.
        """
        known = await self._queries.ended_job(handle.name)
        if known is not None and not states.is_live(known):
            return await self._observe_ended(known)
        if handle.native.get("job") or known is not None:
            job_id = known.id if known is not None else handle.native["job"]
            return Observation(
                state=MachineState.GONE, detail=f"Slurm no longer lists job {job_id}, so it has ended"
            )
        return Observation(state=MachineState.ABSENT, detail="Slurm has no job of this name")

    async def _read_log(self, job: SlurmJob) -> tuple[str, ...]:
        """Return the last lines that a Slurm job printed. They say why an agent did not start."""
        if job.id not in self._logs:
            done = await self._shell.run(script.log_program(job.name, await self._find_place(), LOG_BYTES))
            lines = [printable_line(line.strip())[:300] for line in done.output.splitlines() if line.strip()]
            _forget_oldest(self._logs)
            self._logs[job.id] = tuple(lines[-LOG_LINES:])
        return self._logs[job.id]

    async def _cancel_duplicates(self, name: str, jobs: Sequence[SlurmJob]) -> None:
        extra = states.duplicates(jobs)
        if extra:
            await self._shell.run(script.cancel_jobs_program(job.id for job in extra))
            self._remember_change(name)

    def _report_changes(self, queue: Mapping[str, Sequence[SlurmJob]]) -> None:
        """Call `on_change` for attempts whose Slurm job has ended or was restarted since the last query."""
        current = {
            name: (job.state, job.restarts)
            for name, jobs in queue.items()
            if (job := states.choose_job(jobs)) is not None and job.comment == f"anygpu:{self._owner}"
        }
        # A job that this process has submitted may end before it is seen for the first time.
        submitted = {name: SUBMITTED_STATE for name in current if name in self._submitted_at}
        before, self._states = submitted | self._states, current
        for name, state in current.items():
            if before.get(name, state) != state:
                self._on_change(name)
        self._limits.record_ends(len(_live_names(before) - _live_names(current)))

    # -- end --------------------------------------------------------------------------------------------------

    async def terminate(self, handle: Handle) -> None:
        """Cancel the Slurm job of an attempt. If Slurm accepted none, the attempt's directory is removed."""
        place = await self._find_place()
        _forget_oldest(self._cancelled)
        self._cancelled[handle.name] = None
        self._submitted_at.pop(handle.name, None)
        refused = handle.name in self._refused
        done = await self._shell.run(script.cancel_program(handle.name, place, remove=refused))
        self._remember_change(handle.name)
        if done.code != 0:
            raise BackendUnavailable(
                f"The Slurm job of {handle.name} could not be cancelled: {printable_line(done.message)}. The server "
                "tries again."
            )

    async def inventory(self) -> Sequence[Handle]:
        queue = await self._queries.queue(time.monotonic())
        live = [
            Handle(name=name, native={"job": job.id})
            for name, jobs in sorted(queue.items())
            for job in [states.choose_job(jobs)]
            if job is not None and self._is_own(job) and states.is_live(job)
        ]
        if time.monotonic() > self._cleanup_at:
            self._cleanup_at = time.monotonic() + CLEANUP_EVERY_S
            await self._clean_up([handle.name for handle in live])
        return live

    def _is_own(self, job: SlurmJob) -> bool:
        return job.comment == f"anygpu:{self._owner}" and script.ATTEMPT_NAME.fullmatch(job.name) is not None

    async def _clean_up(self, live: Sequence[str]) -> None:
        """Remove old directories, and try again to deliver what dead agents left in the others."""
        place = await self._find_place()
        program = script.cleanup_program(place, live, DELIVERED_DAYS, UNDELIVERED_DAYS)
        done = await self._shell.run(program, timeout_s=UPLOAD_TIMEOUT_S)
        for name in script.read_undelivered(done.output):
            await self.deliver(Handle(name=name))

    async def deliver(self, handle: Handle) -> None:
        """Start to send the reports that a dead agent left in its directory, from the login node.

        They are sent when the Slurm job has ended, and again after a failure. The job continues meanwhile.
        """
        if handle.name in self._delivering:
            return
        self._delivering.add(handle.name)
        task = asyncio.create_task(self._deliver(handle.name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, name: str) -> None:
        try:
            for pause_s in (*DELIVERY_PAUSES_S, None):
                if await self._try_delivery(name) or pause_s is None:
                    return
                await asyncio.sleep(pause_s)
        finally:
            self._delivering.discard(name)

    async def _try_delivery(self, name: str) -> bool:
        """Return whether everything is delivered that the server accepts."""
        try:
            jobs = (await self._queries.queue(time.monotonic())).get(name, ())
            if any(states.is_live(job) for job in jobs):
                return False  # its agent may still run, and deliver its reports itself
            async with self._deliveries:
                return await self._run_delivery(name)
        except AnygpuError:
            return False

    async def _run_delivery(self, name: str) -> bool:
        place, archive = await self._find_place(), await agent_archive()
        agent = place.agent(archive.sha256)
        url = await self._delivery_url()
        program = script.delivery_program(name, place, agent, url, python=self._options.python)
        done = await self._shell.run(program, timeout_s=DELIVERY_TIMEOUT_S)
        if script.read_outcome(done.output)[0] == script.NEEDS_AGENT:
            await self._upload(archive, agent)
            done = await self._shell.run(program, timeout_s=DELIVERY_TIMEOUT_S)
        return done.code == 0

    async def _delivery_url(self) -> str:
        """Return the server's address for a program on the login node: through a reverse tunnel over SSH."""
        if isinstance(self._shell, SshShell):
            connection = await self._shell.connection()
            if self._tunnel is None or self._tunnel[0] is not connection:
                port = await open_tunnel(connection, self._agent_target, self._shell.name)
                self._tunnel = connection, port
            return f"http://127.0.0.1:{self._tunnel[1]}"
        host, port = self._agent_target
        return f"http://{host}:{port}"

    async def check(self) -> AccountStatus:
        """Check commands, partitions, account and directory. The message names each thing that is missing."""
        return await check_cluster(self._shell, self._queries, self._options, self._owner)

    async def close(self) -> None:
        """Disconnect from the cluster. Its jobs keep running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._queries.close()
        if isinstance(self.relay, SshRelay):
            await self.relay.close()
        await self._shell.close()

    def _remember_change(self, name: str) -> None:
        _forget_oldest(self._changed_at)
        self._changed_at[name] = time.monotonic()


def _forget_oldest(remembered: dict[Any, Any]) -> None:
    while len(remembered) >= MAX_REMEMBERED:
        del remembered[next(iter(remembered))]


def _live_names(seen: Mapping[str, tuple[str, int]]) -> set[str]:
    """Return the names of the jobs that wait or run, from the states of all jobs."""
    return {name for name, (state, _) in seen.items() if state not in states.ENDED_TEXTS}


def _could_fit(group: NodeGroup, need: Resources) -> bool:
    return not need.gpu or need.gpu.count <= group.gpus
