"""Check whether a Slurm cluster can be used, and name each thing that is missing."""

from collections.abc import Iterator

from anygpu.backends.contract import AccountStatus
from anygpu.backends.slurm import script
from anygpu.backends.slurm.offers import build_offer, describe_groups, missing_partitions, node_groups
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import split_sections
from anygpu.backends.slurm.queries import ClusterFacts, ClusterQueries
from anygpu.backends.slurm.shell import ClusterShell
from anygpu.backends.slurm.waits import read_answer, test_command
from anygpu.errors import AnygpuError
from anygpu.printable import printable_line
from anygpu.spec.sections import Resources

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
MIN_DISK_KIB = 5 * 1024**2
OLDEST_VERSION = (20, 11)  # earlier ones do not print fields with a separator


def check_program(root: str) -> str:
    """Return the program that prints the user, missing commands, and the state of the backend's directory."""
    commands = " ".join(COMMANDS)
    return "\n".join(
        (
            script.section("user", "id -un"),
            script.section(
                "missing", f'for c in {commands}; do command -v "$c" >/dev/null 2>&1 || echo "$c"; done'
            ),
            script.section(
                "accounting", f"{script.LIMITED_SACCT} -n -X -S now-1hour >/dev/null 2>&1 && echo yes"
            ),
            f"root=$({script.home_program(root)})",
            script.section(
                "directory",
                'umask 077; { mkdir -p "$root" && : > "$root/.anygpu-check" && rm -f "$root/.anygpu-check"; } 2>&1',
            ),
            script.section("disk", "df -Pk \"$root\" 2>/dev/null | awk 'NR == 2 { print $4 }'"),
            "exit 0",
        )
    )


async def check_cluster(
    shell: ClusterShell, queries: ClusterQueries, options: SlurmOptions, owner: str
) -> AccountStatus:
    """Run the checks on the cluster. The status is valid if jobs can be submitted."""
    try:
        answers = split_sections((await shell.run(check_program(options.root))).output)
        missing = answers.get("missing", "").split()
        if missing:
            hint = "Give the login node as `host`, or install Slurm's client programs there."
            return AccountStatus(
                valid=False, message=f"{shell.name} has no command {', '.join(missing)}. {hint}"
            )
        facts = await queries.facts(max_age_s=0)
        refusals = [*_directory_problems(answers, options), *_partition_problems(facts, options)]
        refusals += await _refused_requests(shell, facts, options, owner)
    except AnygpuError as error:
        return AccountStatus(valid=False, message=str(error))
    if refusals:
        return AccountStatus(valid=False, message="\n".join(refusals))
    return AccountStatus(valid=True, message="\n".join(_summary(answers, facts, options)))


def _directory_problems(answers: dict[str, str], options: SlurmOptions) -> Iterator[str]:
    problem = printable_line(answers.get("directory", "").strip())
    if problem:
        yield (
            f"the directory {options.root} cannot be written: {problem[:300]}. Set the option directory to one on the "
            "shared file system"
        )


def _partition_problems(facts: ClusterFacts, options: SlurmOptions) -> Iterator[str]:
    names = sorted({node.partition for node in facts.nodes})
    for name in missing_partitions(facts, options):
        yield f"the partition {name} does not exist or may not be used; there are: {', '.join(names) or 'none'}"
    if not facts.nodes:
        yield "Slurm lists no partition that the user may use; ask the cluster's administrator for access"
    version = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdecimal())
    if version and version < OLDEST_VERSION:
        yield f"Slurm {facts.version} is too old; 20.11 or newer is needed"


async def _refused_requests(
    shell: ClusterShell, facts: ClusterFacts, options: SlurmOptions, owner: str
) -> list[str]:
    """Ask Slurm in each partition whether it accepts a small job with the backend's account, QoS and constraint."""
    place = script.ClusterPlace(root=facts.root, owner=owner)
    groups = {group.partition.name: group for group in node_groups(facts, options)}
    need = Resources()
    lines = [
        script.section(
            name,
            f"{test_command(build_offer(group, facts, need, backend='', options=options), need, options, place)} 2>&1",
        )
        for name, group in groups.items()
        if not group.partition.problem
    ]
    done = await shell.run("\n".join((script.CLEAN_ENVIRONMENT, script.EPOCH_TIMES, *lines, "exit 0")))
    answers = {
        name: read_answer(text, facts.now_s).refused for name, text in split_sections(done.output).items()
    }
    refused = [f"partition {name}: {reason}" for name, reason in answers.items() if reason]
    return refused if len(refused) == len(answers) else []


def _summary(answers: dict[str, str], facts: ClusterFacts, options: SlurmOptions) -> Iterator[str]:
    accounting = "with accounting" if answers.get("accounting", "").strip() else "without accounting"
    user = printable_line(answers.get("user", "").strip())[:60]
    yield f"Slurm {facts.version} as user {user}, {accounting}; files are in {facts.root}"
    disk = answers.get("disk", "").strip()
    if disk.isdecimal() and int(disk) < MIN_DISK_KIB:
        yield f"only {int(disk) / 1024**2:.1f} GiB are free there; environments and checkpoints need 5 GiB"
    yield from describe_groups(node_groups(facts, options))
