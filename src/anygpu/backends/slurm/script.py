"""Build the batch script of an attempt, and the shell programs that submit and cancel it on the cluster."""

import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anygpu.agent import exit_codes
from anygpu.backends.batch.command import agent_command, check_command, ticket_content
from anygpu.backends.contract import LaunchRequest
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import QUEUE_FIELDS, SECTION, format_option
from anygpu.events.offers import Offer

MINUTE_S = 60
RUN_MARGIN_S = 900.0  # beyond the job's own time limit: to prepare its environment, and to upload results
SIGNAL_FRACTION, MAX_SIGNAL_S = 0.1, 120
MIN_SIGNAL_LIMIT_S = (
    600  # Slurm sends the signal up to a minute early, which is too early for a shorter time limit
)
MEMORY_OPTIONS = ("--mem", "--mem-per-cpu", "--mem-per-gpu")
NEEDS_AGENT, ENDED, EXISTS, SUBMITTED = "needs-agent", "ended", "exists", "submitted"
UNDELIVERED = "undelivered"
REJECTED_MARK = "rejected"  # a file in a directory whose reports the server does not want
ATTEMPT_NAME = re.compile(r"anygpu-[0-9a-f]{32}-\d{1,9}")
NO_DIRECTORY_EXIT, NO_QUEUE_EXIT = 91, 92
REFUSED_EXIT = 93  # sbatch failed, and nobody has tried before
REFUSED_AGAIN_EXIT = 94  # sbatch failed, but may have succeeded before
NO_AGENT = "'anygpu: this node cannot read the agent in the directory of the backend'"
END_OF_FILE = "anygpu-end-of-file"
# Options in the user's environment must not replace those that anygpu gives.
CLEAN_ENVIRONMENT = (
    "unset $(env | sed -n -E 's/^(S(BATCH|QUEUE|INFO|ACCT|CANCEL)_[A-Za-z_]*)=.*/\\1/p') 2>/dev/null"
)
EPOCH_TIMES = "export SLURM_TIME_FORMAT=%s"
# sacct waits for a database that does not answer, for minutes.
LIMITED_SACCT = "$(command -v timeout >/dev/null 2>&1 && echo timeout 30) sacct"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """Where the files of this server are on the cluster, and how long Slurm waits between SIGTERM and SIGKILL."""

    root: str  # absolute path, the same on all nodes
    owner: str  # id of the anygpu server
    kill_wait_s: float = 30.0

    @property
    def tag(self) -> str:
        """The comment of all Slurm jobs of this server."""
        return f"anygpu:{self.owner}"

    def directory(self, name: str) -> str:
        return f"{self.root}/{self.owner}/{name}"

    def agent(self, sha256: str) -> str:
        return f"{self.root}/agent/{sha256}.pyz"


SAFE_PATH = re.compile(r"/[A-Za-z0-9/._+-]*")


def is_safe_path(path: str) -> bool:
    """Return whether a path can be written into a line of a batch script that Slurm reads."""
    return SAFE_PATH.fullmatch(path) is not None


def split_offer_name(name: str) -> tuple[str, str, int]:
    """Return the partition, the GPU type and the GPUs of a node of an offer such as `gpu/a100x4`.

    The type is empty if the GPUs have none.
    """
    partition, _, shape = name.partition("/")
    gpu_type, _, count = shape.rpartition("x")
    return partition, gpu_type, int(count) if count.isdecimal() else 0


def batch_script(
    launch: LaunchRequest, offer: Offer, options: SlurmOptions, place: ClusterPlace, agent: str
) -> str:
    """Return the batch script of an attempt. `agent` is the path of the agent's archive. It has no secrets."""
    directory = place.directory(launch.name)
    lines = [
        "#!/bin/sh",
        *(f"#SBATCH {option}" for option in sbatch_options(launch, offer, options, place)),
        f"#SBATCH --chdir={directory}",
        f"#SBATCH --output={directory}/slurm-%j.out",
        "# An attempt runs once. anygpu starts another attempt where the job continues from its checkpoint.",
        f'if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ] || [ -e {shlex.quote(directory)}/ended ]; then',
        "  echo 'anygpu: Slurm has started this job again, or its attempt has ended; it does not run' >&2",
        '  scancel "$SLURM_JOB_ID"; exit 0',
        "fi",
    ]
    if not _gpu_count(launch):
        lines.append('export CUDA_VISIBLE_DEVICES=""  # a job without GPUs must not use those of other jobs')
    name = f"export ANYGPU_NAME={shlex.quote(launch.name)}"
    start = f"{name}\n{agent_command(agent, directory, python=options.python)}"
    if launch.nodes > 1:
        start = _start_on_all_nodes(launch, offer, directory, agent, options.python)
    return "\n".join((*lines, *options.setup, start, ""))


def _start_on_all_nodes(launch: LaunchRequest, offer: Offer, directory: str, agent: str, python: str) -> str:
    """Return the commands that start one agent on each node, unless a node cannot run its agent.

    Each node has a directory of its own. srun itself must not have the name of the attempt: an agent ends all processes
    of that name when its job has ended.

    srun returns the highest exit code. If it killed the other checks after the first failure, it would return the code
    of the signal. Nor may it end the other agents some time after the first one has ended, as some sites configure.
    """
    enter = (
        'suffix=""; [ "$SLURM_PROCID" -eq 0 ] || suffix="-n$SLURM_PROCID"',
        f'export ANYGPU_NAME={shlex.quote(launch.name)}"$suffix"',
        f'cd {shlex.quote(directory)}"$suffix" || exit {NO_DIRECTORY_EXIT}',
    )
    check = "\n".join(
        (
            *enter,
            f"[ -r {shlex.quote(agent)} ] || {{ echo {NO_AGENT} >&2; exit {NO_DIRECTORY_EXIT}; }}",
            check_command(python=python),
        )
    )
    start = "\n".join((*enter, agent_command(agent, ".", python=python)))
    nodes, cpus = launch.nodes, _cpu_count(launch, offer)
    srun = f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus} --mpi=none"
    srun += " --kill-on-bad-exit=0 --wait=0"
    return "\n".join(
        (
            f"{srun} sh -c {shlex.quote(check)} || exit $?",
            f"exec {srun} sh -c {shlex.quote(start)}",
        )
    )


def sbatch_options(
    launch: LaunchRequest, offer: Offer, options: SlurmOptions, place: ClusterPlace
) -> list[str]:
    """Return the options of sbatch that say what the attempt needs. Values are safe words."""
    partition, gpu_type, _ = split_offer_name(offer.name)
    limit_s = time_limit_s(launch.max_run_s, offer.max_run_s)
    chosen = {
        "job-name": launch.name,
        "comment": place.tag,
        "partition": partition,
        "account": options.account,
        "qos": options.qos,
        "constraint": options.constraint,
        "nodes": str(launch.nodes),
        "ntasks-per-node": "1",
        "cpus-per-task": str(_cpu_count(launch, offer)),
        "mem": _memory(launch),
        "gres": _gres(launch, gpu_type, options),
        "time": "UNLIMITED" if limit_s is None else str(max(1, int(limit_s // MINUTE_S))),
        "signal": _signal(limit_s, launch.nodes),
        "open-mode": "append",
        "export": "ALL",
    }
    own = [f"--{name}={value}" for name, value in chosen.items() if value]
    return [*own, "--no-requeue", *_site_options(launch, options)]


def _site_options(launch: LaunchRequest, options: SlurmOptions) -> list[str]:
    """Return the further options of the backend, without those that conflict with what the job asks for.

    Slurm accepts one option for the memory, of several equal ones the last, and --mem-per-gpu only with GPUs.
    """
    conflicting = MEMORY_OPTIONS if launch.resources.memory_gib else ()
    if not _gpu_count(launch):
        conflicting = (*conflicting, "--mem-per-gpu")
    return [text for text in options.sbatch_options if text.partition("=")[0] not in conflicting]


def time_limit_s(run_s: float | None, longest_s: float | None) -> float | None:
    """Return the time limit of the Slurm job; None without a limit.

    A job with its own time limit gets more, because its environment is prepared first and its results are uploaded
    last. The limit is never more than the partition allows.
    """
    if run_s is None:
        return longest_s
    if longest_s is None:
        return run_s + RUN_MARGIN_S
    return longest_s if run_s >= longest_s else min(longest_s, run_s + RUN_MARGIN_S)


def _signal(limit_s: float | None, nodes: int) -> str:
    """Return when the agent gets SIGURG before the time limit, in case the server did not stop it before.

    `B:` sends it to the agent alone. The agents of several nodes are not the batch script, but started by it. Slurm
    sends their signal to all processes, and SIGURG ends no process that does not handle it.
    """
    seconds = _notice_s(limit_s)
    if seconds is None:
        return ""
    return f"B:URG@{seconds}" if nodes == 1 else f"URG@{seconds}"


def _notice_s(limit_s: float | None) -> int | None:
    """Return how many seconds before its time limit a Slurm job gets a signal; None if it gets none."""
    if limit_s is None or limit_s < MIN_SIGNAL_LIMIT_S:
        return None
    return min(MAX_SIGNAL_S, int(limit_s * SIGNAL_FRACTION))


def _gpu_count(launch: LaunchRequest) -> int:
    gpu = launch.resources.gpu
    return gpu.count if gpu else 0


def cpu_share(gpus: int, cpus: float | None, node_gpus: int, node_cpus: float) -> int:
    """Return how many CPUs to request: as many as the job needs, else its GPUs' share of the node's CPUs."""
    if cpus:
        return max(1, math.ceil(cpus))
    return max(1, int(node_cpus) * gpus // node_gpus) if gpus and node_gpus else 1


def _cpu_count(launch: LaunchRequest, offer: Offer) -> int:
    return cpu_share(_gpu_count(launch), launch.resources.cpus, split_offer_name(offer.name)[2], offer.cpus)


def _memory(launch: LaunchRequest) -> str:
    memory_gib = launch.resources.memory_gib
    return f"{math.ceil(memory_gib * 1024)}M" if memory_gib else ""


def _gres(launch: LaunchRequest, gpu_type: str, options: SlurmOptions) -> str:
    count = _gpu_count(launch)
    if not count:
        return ""
    return ":".join(part for part in (options.gres, gpu_type, str(count)) if part)


# -- programs -------------------------------------------------------------------------------------------------


def home_program(root: str) -> str:
    """Return the shell words that print the absolute path of the backend's directory."""
    if root.startswith("~"):
        return f'printf "%s\\n" "$HOME"{shlex.quote(root[1:])}'
    return f"printf '%s\\n' {shlex.quote(root)}"


def queue_program() -> str:
    """Return the program that lists all Slurm jobs of the user, also those that ended some minutes ago.

    Without -a, jobs in hidden partitions would seem to have ended.
    """
    fields = shlex.quote(format_option(QUEUE_FIELDS))
    return f'{CLEAN_ENVIRONMENT}\n{EPOCH_TIMES}\nsqueue -h -a -t all -u "$(id -un)" -O {fields}'


def upload_program(path: str, size: int) -> str:
    """Return the program that stores the agent's archive, which it reads from standard input, at `path`."""
    target = shlex.quote(path)
    return (
        f'umask 077; mkdir -p "$(dirname {target})" && head -c {size} > {target}.$$ && '
        f'[ "$(wc -c < {target}.$$)" -eq {size} ] && mv -f {target}.$$ {target} '
        f"|| {{ echo the file is not complete >&2; rm -f {target}.$$; exit 1; }}"
    )


def submit_program(launch: LaunchRequest, offer: Offer, script: str, place: ClusterPlace, agent: str) -> str:
    """Return the program that submits an attempt unless a Slurm job of its name exists.

    The queue is searched only if the attempt may have been submitted before, because that takes time.
    It prints one of NEEDS_AGENT, ENDED, EXISTS and SUBMITTED; the last two with the number of the Slurm job.
    """
    directory, name = shlex.quote(place.directory(launch.name)), shlex.quote(launch.name)
    return "\n".join(
        (
            CLEAN_ENVIRONMENT,
            f"umask 077; mkdir -p {directory} || exit 91; cd {directory} || exit 91",
            f"[ -s {shlex.quote(agent)} ] || {{ echo {NEEDS_AGENT}; exit 0; }}",
            f"touch -c {shlex.quote(agent)} 2>/dev/null",  # an archive that is used is kept
            f"[ ! -e ended ] || {{ echo {ENDED}; exit 0; }}",
            # A directory that is created here proves that nobody has tried to submit the attempt before.
            f"refused={REFUSED_EXIT}",
            "if ! mkdir submitted 2>/dev/null; then",
            f"refused={REFUSED_AGAIN_EXIT}",
            f'found=$(squeue -h -a -t all -u "$(id -un)" -n {name} -o %i) || exit {NO_QUEUE_EXIT}',
            f'[ -z "$found" ] || {{ echo {EXISTS} $found; exit 0; }}',
            "fi",
            *(_write_ticket(launch, offer, node, place) for node in range(launch.nodes)),
            _write_file("job.sh", script),
            'id=$(sbatch --parsable job.sh) || exit "$refused"',
            # Some sites print a greeting before the number, and clusters of a federation print `number;cluster`.
            'id=$(printf "%s\\n" "$id" | tail -n 1)',
            f'echo {SUBMITTED} "${{id%%;*}}"',
        )
    )


def read_outcome(output: str) -> tuple[str, int | None]:
    """Return what the submitting program printed last, and the number of the Slurm job if it has one.

    The login shell of the user may have printed lines before.
    """
    lines = [line.split() for line in output.splitlines() if line.strip()]
    outcome, *ids = lines[-1] if lines else [""]
    return outcome, int(ids[0]) if ids and ids[0].isdecimal() else None


def _write_ticket(launch: LaunchRequest, offer: Offer, node: int, place: ClusterPlace) -> str:
    """Return shell lines that write the ticket of a node. Further nodes have directories beside that of node 0."""
    ticket = ticket_content(
        launch,
        node,
        sigterm_notice_s=place.kill_wait_s,
        sigurg_notice_s=_notice_s(time_limit_s(launch.max_run_s, offer.max_run_s)),
    )
    text = json.dumps(ticket)
    if node == 0:
        return _write_file("ticket.json", text)
    directory = shlex.quote(place.directory(launch.node_name(node)))
    return f"mkdir -p {directory} || exit 91\n" + _write_file("ticket.json", text, directory)


def _write_file(name: str, text: str, directory: str = ".") -> str:
    """Return shell lines that write a file in a directory, completely or not at all."""
    body, draft = text if text.endswith("\n") else f"{text}\n", f"{directory}/.{name}.new"
    return (
        f"cat > {draft} <<'{END_OF_FILE}'\n{body}{END_OF_FILE}\nmv -f {draft} {directory}/{name} || exit 91"
    )


def cancel_program(name: str, place: ClusterPlace, *, remove: bool = False) -> str:
    """Return the program that cancels all Slurm jobs of an attempt, and prevents that one starts later.

    With `remove`, it removes the directories of the attempt instead: Slurm has certainly accepted no job of it.
    """
    directory = shlex.quote(place.directory(name))
    mark = f"umask 077; mkdir -p {directory} && : > {directory}/ended || exit {NO_DIRECTORY_EXIT}"
    return "\n".join(
        (
            CLEAN_ENVIRONMENT,
            f"rm -rf {directory} {directory}-n*" if remove else mark,
            f'scancel --quiet -u "$(id -un)" -n {shlex.quote(name)}',
        )
    )


def cancel_jobs_program(ids: Iterable[int]) -> str:
    return f"{CLEAN_ENVIRONMENT}\nscancel --quiet {' '.join(map(str, ids))}"


def log_program(name: str, place: ClusterPlace, bytes_: int) -> str:
    """Return the program that prints the end of what a Slurm job printed."""
    return f"cat {shlex.quote(place.directory(name))}/slurm-*.out 2>/dev/null | tail -c {bytes_}"


def delivery_program(name: str, place: ClusterPlace, agent: str, url: str, *, python: str = "") -> str:
    """Return the program that sends the reports that dead agents left in their directories to the server at `url`.

    Its exit code is 0 if none of them are left. Reports of an attempt that the server no longer knows get a mark, and
    are not sent again.
    """
    directory = shlex.quote(place.directory(name))
    ticket = json.dumps({"protocol": 1, "url": url, "name": name, "ticket": "", "remote": True})
    return "\n".join(
        (
            "umask 077",
            "left=0",
            f"for directory in {directory} {directory}-n*; do",
            f'[ -e "$directory/work.json" ] && [ ! -e "$directory/{REJECTED_MARK}" ] || continue',
            f"[ -s {shlex.quote(agent)} ] || {{ echo {NEEDS_AGENT}; exit 0; }}",
            '( cd "$directory" || exit 91',
            "rm -f relay.json link.json servers.json  # how the dead agent reached the server",
            _write_file("ticket.json", ticket),
            agent_command(agent, ".", python=python, deliver=True),
            ")",
            'code="$?"',
            f'case "$code" in 0) ;; {exit_codes.REJECTED}) : > "$directory/{REJECTED_MARK}" ;; *) left="$code" ;; esac',
            "done",
            'exit "$left"',
        )
    )


def cleanup_program(
    place: ClusterPlace, live: Sequence[str], delivered_days: int, undelivered_days: int
) -> str:
    """Return the program that removes what is no longer needed: directories of attempts, and archives of agents.

    The directories of `live` attempts are kept. It prints the other directories with reports that were not delivered.
    """
    kept = " ".join(live)
    # find counts whole days, and +1 means at least two of them.
    delivered, undelivered = f"-mtime +{delivered_days - 1}", f"-mtime +{undelivered_days - 1}"
    return "\n".join(
        (
            f"cd {shlex.quote(f'{place.root}/{place.owner}')} 2>/dev/null || exit 0",
            f"live={shlex.quote(f' {kept} ')}",
            f"find . -mindepth 1 -maxdepth 1 -type d -name 'anygpu-*' {delivered} | while read -r path; do",
            '  name="${path#./}"; case "$live" in *" $name "*|*" ${name%-n*} "*) continue;; esac',
            f'  if [ -e "$path/work.json" ]; then find "$path" -maxdepth 0 {undelivered} '
            '-exec rm -rf {} +; else rm -rf "$path"; fi',
            "done",
            "for path in anygpu-*/work.json; do",
            f'  name="${{path%/work.json}}"; [ -e "$path" ] && [ ! -e "$name/{REJECTED_MARK}" ] || continue',
            '  case "$live" in *" $name "*|*" ${name%-n*} "*) continue;; esac',
            f'  echo "{UNDELIVERED} $name"',
            "done",
            # Archives of earlier versions of the agent, unless a job that still waits or runs needs them.
            f"find ../agent -maxdepth 1 -name '*.pyz' {undelivered} 2>/dev/null | while read -r path; do",
            '  grep -qsF -e "${path##*/}" ../*/anygpu-*/job.sh || rm -f "$path"',
            "done",
        )
    )


def read_undelivered(output: str) -> list[str]:
    """Return the names of the attempts whose reports were not delivered, from what the clean-up printed."""
    words = [line.split() for line in output.splitlines()]
    found = [ATTEMPT_NAME.match(line[1]) for line in words if len(line) == 2 and line[0] == UNDELIVERED]
    return list(dict.fromkeys(match.group() for match in found if match))


def section(name: str, command: str) -> str:
    """Return shell lines that print the section mark and a name, then run a command."""
    return f"printf '{SECTION}%s\\n' {name}\n{command}"
