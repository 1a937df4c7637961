"""Ask a cluster about its nodes, its queue and ended jobs. One query serves all attempts at the same time."""

import asyncio
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from anygpu.backends.batch.shared_query import SharedQuery, retrieve_exception
from anygpu.backends.slurm import script
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import (
    ACCOUNTING_FIELDS,
    NODE_FIELDS,
    SEPARATOR,
    Partition,
    Reservation,
    SlurmJob,
    SlurmNode,
    format_option,
    parse_accounting,
    parse_nodes,
    parse_partitions,
    parse_queue,
    parse_reservations,
    split_sections,
)
from anygpu.backends.slurm.preemption import BY_QOS, QosPreemption, mark_preemptible, parse_qos_preemption
from anygpu.backends.slurm.shell import ClusterShell, ShellResult
from anygpu.errors import AnygpuError, BackendUnavailable

FACTS_AGE_S, STALE_FACTS_S = 10.0, 60.0
ACCOUNTING_GATHER_S = 0.05
ACCOUNTING_PAUSE_S = 600.0  # without another try, after sacct has failed
ACCOUNTING_DAYS = 14
DEFAULT_KILL_WAIT_S = 30.0
NO_COMMAND = 127
CONFIG = "SLURM_VERSION|KillWait|PreemptMode|PreemptType"
# Its database may be down; offers must not wait long for it.
LIMITED_SACCTMGR = "$(command -v timeout >/dev/null 2>&1 && echo timeout 5) sacctmgr"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The cluster as its commands describe it at one time."""

    now_s: int  # the login node's clock
    root: str  # absolute path of the backend's directory
    version: str = ""
    kill_wait_s: float = DEFAULT_KILL_WAIT_S
    nodes: tuple[SlurmNode, ...] = ()
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    qos_preemption: QosPreemption | None = None  # None: preemption does not depend on the quality of service


def facts_program(root: str, named: Sequence[str] = ()) -> str:
    """Return the program that prints everything that offers need, in one command. `named` are partitions to use."""
    nodes = f"sinfo -h -N -O {shlex.quote(format_option(NODE_FIELDS))}"
    commands = {
        "now": "date +%s",
        "root": script.home_program(root),
        "config": f"config=$(scontrol show config | grep -E '^({CONFIG}) '); printf '%s\\n' \"$config\"",
        "nodes": f"{nodes} || exit $?",
        # Hidden partitions are listed only by name.
        "named": f"{nodes} -p {shlex.quote(','.join(named))} || exit $?" if named else ":",
        # Also those that the user may not use: their jobs may preempt the user's.
        "partitions": "scontrol show partition -a -o || exit $?",
        "reservations": "scontrol show reservation -o",
        "qualities": _if_by_qos("show qos format=Name,Preempt,PreemptMode"),
        "defaults": _if_by_qos('show assoc where user="$(id -un)" format=Account,DefaultQOS'),
    }
    lines = [script.section(name, command) for name, command in commands.items()]
    return "\n".join((script.CLEAN_ENVIRONMENT, script.EPOCH_TIMES, *lines, "exit 0"))


def _if_by_qos(request: str) -> str:
    """Return the command that asks the accounting, if preemption depends on the quality of service."""
    return f'case "$config" in *{BY_QOS}*) {LIMITED_SACCTMGR} -n -P {request} 2>/dev/null ;; esac'


def parse_facts(output: str, gres: str) -> ClusterFacts:
    """Read the output of `facts_program`."""
    parts = split_sections(output)
    lines = (line.partition("=") for line in parts.get("config", "").split("\n"))
    config = {name.strip(): value.strip() for name, _, value in lines}
    wait_text = config.get("KillWait", "").partition(" ")[0]
    now = parts.get("now", "").strip()
    preempt_type = config.get("PreemptType", "")
    by_qos = parse_qos_preemption(
        parts.get("qualities", ""), parts.get("defaults", ""), config.get("PreemptMode", "")
    )
    partitions = mark_preemptible(parse_partitions(parts.get("partitions", "")), preempt_type)
    listed = list(parse_nodes(parts.get("nodes", ""), gres))
    return ClusterFacts(
        now_s=int(now) if now.isdecimal() else 0,
        root=parts.get("root", "").strip(),
        version=config.get("SLURM_VERSION", "")[:40],
        kill_wait_s=float(wait_text) if wait_text.isdecimal() else DEFAULT_KILL_WAIT_S,
        nodes=(*listed, *_hidden_nodes(parse_nodes(parts.get("named", ""), gres), listed, partitions)),
        partitions=partitions,
        reservations=tuple(parse_reservations(parts.get("reservations", ""))),
        qos_preemption=by_qos if preempt_type == BY_QOS else None,
    )


def _hidden_nodes(
    named: Iterable[SlurmNode], listed: Iterable[SlurmNode], partitions: Mapping[str, Partition]
) -> Iterator[SlurmNode]:
    """Yield the nodes of hidden partitions. By name, Slurm also lists partitions that the user's group may not use."""
    known = {node.partition for node in listed}
    for node in named:
        partition = partitions.get(node.partition)
        if partition is not None and partition.hidden and node.partition not in known:
            yield node


class ClusterQueries:
    """The queries of one cluster: its facts, its queue, and the accounting of ended jobs."""

    def __init__(self, shell: ClusterShell, options: SlurmOptions) -> None:
        self._shell = shell
        self._options = options
        self._facts = SharedQuery(self._fetch_facts)
        self._queue = SharedQuery(self._fetch_queue)
        self._accounting_again_at = float("-inf")
        self._accounting: asyncio.Task[dict[str, SlurmJob]] | None = None
        self._asked_names: set[str] = set()

    async def facts(self, max_age_s: float = FACTS_AGE_S) -> ClusterFacts:
        return await self._facts.get(time.monotonic() - max_age_s)

    async def recent_facts(self) -> ClusterFacts:
        """Return the facts for offers. They may be a minute old; after ten seconds they are read again."""
        return await self._facts.get_recent(FACTS_AGE_S, STALE_FACTS_S)

    async def queue(self, newer_than: float) -> Mapping[str, Sequence[SlurmJob]]:
        """Return the user's jobs by name, from a query that began after `newer_than` (monotonic clock)."""
        return await self._queue.get(newer_than)

    @property
    def queue_count(self) -> int:
        """How many times the queue was asked for."""
        return self._queue.count

    async def ended_job(self, name: str) -> SlurmJob | None:
        """Return the newest job of this name from the accounting, or None if it has none or does not answer.

        The accounting lags by some seconds, and many clusters have none. One query serves all names that are
        requested at about the same time.
        """
        if time.monotonic() < self._accounting_again_at:
            return None
        if self._accounting is None:
            self._asked_names = set()
            self._accounting = asyncio.create_task(self._fetch_accounting(self._asked_names))
            self._accounting.add_done_callback(retrieve_exception)
        self._asked_names.add(name)
        return (await asyncio.shield(self._accounting)).get(name)

    async def _fetch_accounting(self, names: set[str]) -> dict[str, SlurmJob]:
        await asyncio.sleep(ACCOUNTING_GATHER_S)
        self._accounting = None  # later names are for the next query
        fields = ",".join(ACCOUNTING_FIELDS)
        command = (
            f'{script.LIMITED_SACCT} -n -P -X -u "$(id -un)" --name={shlex.quote(",".join(sorted(names)))} '
            f"-S now-{ACCOUNTING_DAYS}days --delimiter={shlex.quote(SEPARATOR)} -o {fields}"
        )
        try:
            done = await self._shell.run("\n".join((script.CLEAN_ENVIRONMENT, script.EPOCH_TIMES, command)))
        except AnygpuError:
            done = None
        if done is None or done.code != 0:
            self._accounting_again_at = time.monotonic() + ACCOUNTING_PAUSE_S
            return {}
        return {job.name: job for job in sorted(parse_accounting(done.output), key=lambda job: job.id)}

    async def close(self) -> None:
        await self._facts.close()
        await self._queue.close()
        if self._accounting is not None:
            self._accounting.cancel()
            await asyncio.wait([self._accounting])

    async def _fetch_facts(self) -> ClusterFacts:
        done = await self._shell.run(facts_program(self._options.root, self._options.partitions))
        require_success(done, self._shell.name)
        facts = parse_facts(done.output, self._options.gres)
        if not script.is_safe_path(facts.root):
            raise BackendUnavailable(
                f"The directory {facts.root[:200]!r} on {self._shell.name} has characters that a batch script cannot "
                "contain. Set the option directory of the backend to another one on the shared file system."
            )
        return facts

    async def _fetch_queue(self) -> Mapping[str, Sequence[SlurmJob]]:
        done = await self._shell.run(script.queue_program())
        require_success(done, self._shell.name)
        by_name: dict[str, list[SlurmJob]] = {}
        for job in parse_queue(done.output):
            by_name.setdefault(job.name, []).append(job)
        return by_name


def require_success(done: ShellResult, machine: str) -> None:
    """Raise BackendUnavailable with Slurm's own message if a query failed."""
    if done.code == NO_COMMAND:
        raise BackendUnavailable(
            f"The commands of Slurm were not found on {machine}: {done.message}",
            hint="Give the login node of the cluster as `host`, or install Slurm's client programs there.",
        )
    if done.code != 0:
        raise BackendUnavailable(
            f"Slurm did not answer on {machine}: {done.message}",
            hint="Check the cluster's controller with `scontrol ping`; the server tries again.",
        )
