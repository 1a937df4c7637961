"""Ask Slurm when jobs would start on busy nodes, with `sbatch --test-only`, which submits nothing."""

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

from anygpu.backends.contract import LaunchRequest
from anygpu.backends.slurm import script
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import parse_start_time, split_sections
from anygpu.backends.slurm.refusals import Refusal, classify_refusal, describe_exceeded_limit
from anygpu.backends.slurm.shell import ClusterShell
from anygpu.errors import AnygpuError
from anygpu.events.offers import Offer
from anygpu.printable import printable_line
from anygpu.spec.sections import Resources

WAIT_AGE_S = 60.0
MAX_TESTS = 20  # offers in one query
TESTS_LIMIT_S = 20  # no test is started later than this after the first one
UNKNOWN_WAIT_S = 3600.0  # Slurm gives no time while its scheduler has not looked at the queue
MAX_KNOWN = 2000
ERROR_MARKS = ("failure", "error", "fatal")
ERROR_PREFIX = re.compile(r"^(allocation failure|sbatch: error|sbatch: fatal): ")
# Slurm would put such a job into its queue.
QUEUED = ("Requested nodes are busy", "Required node not available", "Required partition not available")


@dataclass(frozen=True, slots=True)
class ExpectedWait:
    """When a job would start: in `wait_s` seconds, or never for the reason `refused`.

    `may_be_kept` is False if Slurm could not answer, so that the next query asks again.
    """

    wait_s: float
    refused: str = ""
    may_be_kept: bool = True


UNTESTED = ExpectedWait(UNKNOWN_WAIT_S, may_be_kept=False)


class WaitEstimator:
    """Remembers for a minute how long jobs would wait for an offer, and that Slurm does not answer."""

    def __init__(self, shell: ClusterShell, options: SlurmOptions) -> None:
        self._shell = shell
        self._options = options
        self._known: dict[tuple[str, Resources], tuple[float, ExpectedWait]] = {}
        self._ask_again_at = float("-inf")

    async def waits(
        self, offers: Sequence[Offer], need: Resources, place: script.ClusterPlace, now_s: int
    ) -> dict[str, ExpectedWait]:
        """Return how long a job would wait for each offer, by the offer's name.

        Offers beyond MAX_TESTS, or for which the time did not suffice, are first in the next query. Until then their
        wait is unknown.
        """
        fresh = time.monotonic() - WAIT_AGE_S
        if len(self._known) > MAX_KNOWN:
            self._known = {key: known for key, known in self._known.items() if known[0] > fresh}
        asked_at = {offer.name: self._known.get((offer.name, need), (0.0,))[0] for offer in offers}
        old = sorted(
            (each for each in offers if asked_at[each.name] <= fresh), key=lambda each: asked_at[each.name]
        )
        asked = await self._ask(old[:MAX_TESTS], need, place, now_s) if old else {}
        untested = (0.0, UNTESTED)
        known = {offer.name: self._known.get((offer.name, need), untested)[1] for offer in offers}
        return known | asked

    async def _ask(
        self, offers: Sequence[Offer], need: Resources, place: script.ClusterPlace, now_s: int
    ) -> dict[str, ExpectedWait]:
        asked_at = time.monotonic()
        if asked_at < self._ask_again_at:
            return {offer.name: UNTESTED for offer in offers}
        enough_time = f'[ "$(date +%s)" -lt $((begun + {TESTS_LIMIT_S})) ] || exit 0'
        tests = [
            f"{enough_time}\n"
            + script.section(str(number), f"{test_command(offer, need, self._options, place)} 2>&1")
            for number, offer in enumerate(offers)
        ]
        lines = (script.CLEAN_ENVIRONMENT, script.EPOCH_TIMES, "begun=$(date +%s)", *tests, "exit 0")
        try:
            answers = split_sections((await self._shell.run("\n".join(lines))).output)
        except AnygpuError:
            self._ask_again_at = time.monotonic() + WAIT_AGE_S
            answers = {}
        waits = {
            offer.name: read_answer(answers[str(number)], now_s) if str(number) in answers else UNTESTED
            for number, offer in enumerate(offers)
        }
        for name, wait in waits.items():
            if wait.may_be_kept:
                self._known[name, need] = asked_at, wait
        return waits


def test_command(offer: Offer, need: Resources, options: SlurmOptions, place: script.ClusterPlace) -> str:
    """Return the command that asks when a job with these needs would start."""
    launch = LaunchRequest(
        name="anygpu-test",
        job_id="",
        attempt=0,
        ticket="",
        agent_url="",
        resources=need,
        max_run_s=offer.max_run_s,
        nodes=need.nodes,
    )
    chosen = script.sbatch_options(launch, offer, options, place)
    return f"sbatch --test-only {shlex.join(chosen)} --wrap true"


def read_answer(text: str, now_s: int) -> ExpectedWait:
    """Read the answer of `sbatch --test-only`: a start time, or why the job can never start.

    The wait is unknown if Slurm could not answer, if it accepts no more jobs now, and if a job would have to wait for
    nodes that are down.
    """
    start_s = parse_start_time(text)
    if start_s is not None:
        return ExpectedWait(float(max(0, start_s - now_s)))
    lines = [line for line in text.strip().splitlines() if any(mark in line for mark in ERROR_MARKS)]
    errors = " ".join(lines)
    if classify_refusal(errors) is not Refusal.FINAL:
        return ExpectedWait(UNKNOWN_WAIT_S, may_be_kept=False)
    if not lines or any(mark in errors for mark in QUEUED):
        return ExpectedWait(UNKNOWN_WAIT_S)
    last = ERROR_PREFIX.sub("", lines[-1])
    reason = describe_exceeded_limit(errors) or printable_line(last)
    return ExpectedWait(UNKNOWN_WAIT_S, f"Slurm refuses the request: {reason[:300]}")
