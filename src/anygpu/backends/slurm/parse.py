"""Parse what the commands of Slurm print. All text comes from the cluster and is not trusted. Pure functions.

Fields are separated by a control character that names cannot contain, and times are seconds since 1970.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from anygpu.printable import printable

SEPARATOR = "\x1f"
SECTION = "\x1e"
MAX_HOSTS = 100_000  # of one expanded list
NO_VALUES = ("", "(null)", "N/A", "NONE", "None", "Unknown")
UNLIMITED = ("infinite", "UNLIMITED", "NONE", "n/a", "NOT_SET", "INVALID", "")
SAFE_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,100}")

QUEUE_FIELDS = (
    "JobID",
    "State",
    "RestartCnt",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "exit_code",
    "Reason",
    "NodeList",
    "Comment",
    "Name",
)
NODE_FIELDS = ("Partition", "NodeList", "StateLong", "Gres", "GresUsed", "CPUsState", "Memory", "AllocMem")
ACCOUNTING_FIELDS = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "JobName")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job of Slurm, as squeue or sacct describes it."""

    id: int
    name: str
    state: str  # such as PENDING, RUNNING, CANCELLED
    by: str = ""  # for CANCELLED: the number of the user who cancelled it, if accounting knows it
    restarts: int = 0
    submitted_s: int | None = None
    started_s: int | None = None
    ended_s: int | None = None
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    nodes: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node in one partition, with what is installed and what is in use."""

    partition: str
    name: str
    state: str
    gpus: Mapping[str, int] = field(default_factory=dict)  # by type; "" if the type is not configured
    gpus_used: Mapping[str, int] = field(default_factory=dict)
    cpus: int = 0
    cpus_idle: int = 0
    memory_mib: int = 0
    memory_used_mib: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether Slurm starts jobs on the node, now or when it is free."""
        base = self.state.rstrip("~#!%$@^-+")
        return base in ("idle", "mixed", "allocated", "completing", "planned", "reserved", "powering_up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: the longest time of a job, whether jobs may be preempted, and why it starts none, if so."""

    name: str
    max_time_s: float | None = None
    preemptible: bool = False  # see preemption.py
    max_nodes: int | None = None
    problem: str = ""
    hidden: bool = False  # Slurm lists it only by name
    preempt_mode: str = "OFF"  # that of the cluster if the partition sets none
    tier: int = 1
    nodes: str = ""  # a list of hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation that keeps other users' jobs from its nodes for some time."""

    name: str
    start_s: int
    end_s: int
    nodes: frozenset[str]
    maintenance: bool = False


def format_option(fields: tuple[str, ...]) -> str:
    """Return the value of the option -O that makes squeue or sinfo print these fields."""
    return ",".join(f"{name}:{SEPARATOR}" for name in fields)


def split_sections(output: str) -> dict[str, str]:
    """Split the output of a program that prints SECTION and a name before each command's output."""
    parts = (part.partition("\n") for part in output.split(SECTION)[1:])
    return {name.strip(): text for name, _, text in parts}


def parse_queue(output: str) -> Iterator[SlurmJob]:
    """Yield the jobs in squeue's output. A line that cannot be read is skipped."""
    for row in _rows(output, QUEUE_FIELDS):
        if not row["JobID"].isdecimal():
            continue
        code, signal = parse_exit(row["exit_code"])
        yield SlurmJob(
            id=int(row["JobID"]),
            name=row["Name"],
            state=row["State"].partition(" ")[0],
            restarts=_number(row["RestartCnt"]),
            submitted_s=_time(row["SubmitTime"]),
            started_s=_time(row["StartTime"]),
            ended_s=_time(row["EndTime"]),
            exit_code=code,
            signal=signal,
            reason=_text(row["Reason"]),
            nodes=_text(row["NodeList"]),
            comment=_text(row["Comment"]),
        )


def parse_accounting(output: str) -> Iterator[SlurmJob]:
    """Yield the jobs in sacct's output. `CANCELLED by 0` names the user who cancelled the job."""
    for row in _rows(output, ACCOUNTING_FIELDS):
        if not row["JobID"].isdecimal():
            continue
        state, _, by = row["State"].partition(" by ")
        code, signal = parse_exit(row["ExitCode"])
        yield SlurmJob(
            id=int(row["JobID"]),
            name=row["JobName"],
            state=state.partition(" ")[0],
            by=by.strip(),
            submitted_s=_time(row["Submit"]),
            started_s=_time(row["Start"]),
            ended_s=_time(row["End"]),
            exit_code=code,
            signal=signal,
        )


def parse_exit(text: str) -> tuple[int, int]:
    """Return exit code and signal from `3:0` (sacct) or from a wait status such as 768 (squeue)."""
    code, colon, signal = text.partition(":")
    if colon:
        return _number(code), _number(signal)
    status = _number(code)
    return status >> 8 & 0xFF, status & 0x7F


def parse_nodes(output: str, gres: str) -> Iterator[SlurmNode]:
    """Yield the nodes in the output of `sinfo -N`, with the GPUs that the generic resource `gres` counts."""
    for row in _rows(output, NODE_FIELDS):
        partition = row["Partition"].rstrip("*")
        if not SAFE_NAME.fullmatch(partition):
            continue  # it could not be written into a batch script
        cpus = [_number(part) for part in row["CPUsState"].split("/")]
        yield SlurmNode(
            partition=partition,
            name=row["NodeList"],
            state=row["StateLong"].lower(),
            gpus=parse_gres(row["Gres"], gres),
            gpus_used=parse_gres(row["GresUsed"], gres),
            cpus=cpus[3] if len(cpus) == 4 else 0,
            cpus_idle=cpus[1] if len(cpus) == 4 else 0,
            memory_mib=_number(row["Memory"]),
            memory_used_mib=_number(row["AllocMem"]),
        )


def parse_gres(text: str, name: str) -> dict[str, int]:
    """Return the count of each type of generic resource `name` in text such as `gpu:a100:4(S:0-1),gpu:t4:2`."""
    counts: dict[str, int] = {}
    plain = re.sub(r"\([^()]*\)", "", text)
    for entry in plain.split(","):
        parts = entry.strip().split(":")
        if parts[0] != name or len(parts) < 2 or not parts[-1].isdecimal():
            continue
        kind = ":".join(parts[1:-1])
        if kind and not SAFE_NAME.fullmatch(kind):
            continue
        counts[kind] = counts.get(kind, 0) + int(parts[-1])
    return counts


def parse_partitions(output: str) -> Iterator[Partition]:
    """Yield the partitions in the output of `scontrol show partition -o`."""
    for values in _assignments(output):
        name = values.get("PartitionName", "")
        if not SAFE_NAME.fullmatch(name):
            continue
        state, nodes = values.get("State", "UP"), values.get("MaxNodes", "")
        yield Partition(
            name=name,
            max_time_s=parse_duration(values.get("MaxTime", "")),
            max_nodes=int(nodes) if nodes.isdecimal() else None,
            problem="" if state == "UP" else f"the partition {name} is {printable(state)[:40]}",
            hidden=values.get("Hidden") == "YES",
            preempt_mode=values.get("PreemptMode", "OFF"),
            tier=_number(values.get("PriorityTier", "1")),
            nodes=values.get("Nodes", ""),
        )


def parse_reservations(output: str) -> Iterator[Reservation]:
    """Yield the reservations in the output of `scontrol show reservation -o`."""
    for values in _assignments(output):
        start, end = _time(values.get("StartTime", "")), _time(values.get("EndTime", ""))
        if "ReservationName" not in values or start is None or end is None:
            continue
        yield Reservation(
            name=printable(values["ReservationName"])[:100],
            start_s=start,
            end_s=end,
            nodes=frozenset(expand_hosts(values.get("Nodes", ""))),
            maintenance="MAINT" in values.get("Flags", "").split(","),
        )


def parse_start_time(text: str) -> int | None:
    """Return the expected start in the answer of `sbatch --test-only`, or None if there is none."""
    found = re.search(r"to start at (\d{9,12})\b", text)
    return int(found[1]) if found else None


def parse_duration(text: str) -> float | None:
    """Return the seconds of `30`, `30:00`, `1:00:00`, `2-00`, or `1-12:30:00`; None without a limit."""
    text = text.strip()
    if text in UNLIMITED:
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if len(parts) > 3 or not all(part.isdecimal() for part in parts) or (dash and not days.isdecimal()):
        return None
    numbers = [int(part) for part in parts]
    if dash:
        numbers += [0] * (3 - len(numbers))  # days-hours, days-hours:minutes
    elif len(numbers) == 1:
        numbers = [0, numbers[0], 0]  # minutes
    hours, minutes, seconds = numbers if len(numbers) == 3 else [0, *numbers]
    return float(int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds)


def expand_hosts(text: str) -> Iterator[str]:
    """Yield the names in a list of hosts such as `gpu[1-3,07],login`, at most MAX_HOSTS."""
    if text in NO_VALUES:
        return
    count = 0
    for part in _split_outside_brackets(text):
        for name in _expand_brackets(part):
            if count >= MAX_HOSTS:
                return
            count += 1
            yield name


def _split_outside_brackets(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _expand_brackets(text: str) -> Iterator[str]:
    found = re.search(r"\[([0-9,-]+)\]", text)
    if found is None:
        if text:
            yield text
        return
    before, after = text[: found.start()], text[found.end() :]
    for piece in found[1].split(","):
        first, _, last = piece.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        for number in range(int(first), min(int(last or first), int(first) + MAX_HOSTS) + 1):
            yield from _expand_brackets(f"{before}{number:0{len(first)}d}{after}")


def _rows(output: str, fields: tuple[str, ...]) -> Iterator[dict[str, str]]:
    for line in output.split("\n"):
        values = line.rstrip("\r").split(SEPARATOR)
        if len(values) >= len(fields):
            yield dict(zip(fields, values, strict=False))


def _assignments(output: str) -> Iterator[dict[str, str]]:
    for line in output.split("\n"):
        values = dict(re.findall(r"([A-Za-z][A-Za-z0-9/:_]*)=(\S*)", line))
        if values:
            yield values


def _number(text: str) -> int:
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) < 16 else 0


def _time(text: str) -> int | None:
    return int(text) if text.isdecimal() and 8 < len(text) < 13 else None


def _text(text: str) -> str:
    return "" if text in NO_VALUES else printable(text)[:200]
