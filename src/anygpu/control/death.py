"""Whether an attempt is over without its agent's word: the provider's word, or time and a number of looks. Pure."""

from anygpu.backends.contract import State
from anygpu.control.policy import Policy
from anygpu.control.seen import Seen
from anygpu.control.verdict import blame_for_stopping
from anygpu.events.facts import Blame, Failure
from anygpu.events.view import AttemptView, JobView


def death(view: JobView, attempt: AttemptView, seen: Seen, policy: Policy) -> Failure | None:
    """Why the attempt counts as over without its agent's word, or None while it may be alive."""
    if seen.refusal is not None:
        return seen.refusal
    if view.cancel_requested and (attempt.claimant is None or seen.wanted_end_s > policy.cancel_limit_s):
        return Failure(code="cancelled", message="cancelled before it ended by itself", blame=Blame.PLATFORM)
    if attempt.claimant is None and is_to_move(view, attempt):
        text = f"it is to go on at {view.migrate_to}"
        return Failure(code="migrate", message=text, blame=Blame.PREEMPTION)
    if is_stranded(seen, policy) and attempt.handle is None and attempt.claimant is None:
        return Failure(code="backend_missing", message=seen.stranded, blame=Blame.LAUNCH)
    if seen.launch_failures >= policy.launch_tries:
        text = f"{seen.launch_failures} launch calls without an answer"
        return Failure(code="launch_unknown", message=text, blame=Blame.LAUNCH)
    return _observed_death(attempt, seen, policy) or _silent_death(attempt, seen, policy)


def _observed_death(attempt: AttemptView, seen: Seen, policy: Policy) -> Failure | None:
    observation = seen.observation
    if observation is None or (attempt.handle is None and attempt.claimant is None):
        return None
    if observation.failure is not None and attempt.claimant is None:
        return observation.failure
    # Lists lag and leave things out: an agent that speaks is there, whatever the list says.
    absent = is_absent(seen, policy) and seen.silent_s >= policy.absence_s
    if observation.state not in (State.GONE, State.EXITED) and not absent:
        return None
    blame = Blame.PREEMPTION if observation.preempted else Blame.INFRASTRUCTURE
    code = "preempted" if observation.preempted else "machine_lost"
    return Failure(
        code=code, message=f"{observation.state}: {observation.detail or 'ended by itself'}", blame=blame
    )


def _silent_death(attempt: AttemptView, seen: Seen, policy: Policy) -> Failure | None:
    enough = seen.silent_probes >= policy.probes_before_lost
    if attempt.claimant is None:
        if attempt.handle is not None and seen.state_s > policy.claim_limit_s and enough:
            text = f"no word from the agent in {seen.state_s:.0f} s after launch"
            return Failure(code="never_started", message=text, blame=Blame.LAUNCH)
        return None
    if attempt.stop_reason is not None and seen.wanted_end_s > policy.stop_limit_for(attempt.stop_reason):
        text = f"asked to stop ({attempt.stop_reason}) {seen.wanted_end_s:.0f} s ago"
        blame = blame_for_stopping(attempt.stop_reason)
        return Failure(code=attempt.stop_reason, message=text, blame=blame)
    if seen.claimed and seen.silent_s > policy.silence_for(attempt.offer) and enough:
        text = f"silent for {seen.silent_s:.0f} s and {seen.silent_probes} probes; {seen.words}"
        return Failure(code="silent", message=text, blame=Blame.INFRASTRUCTURE)
    return None


def is_absent(seen: Seen, policy: Policy) -> bool:
    """Lists lag, and leave things out now and then: it takes both time and a number of looks."""
    return seen.absent_s >= policy.absence_s and seen.absent_probes >= policy.probes_before_lost


def is_stranded(seen: Seen, policy: Policy) -> bool:
    """A backend that is not configured now may be in a moment: servers start, profiles are changed."""
    return bool(seen.stranded) and seen.stranded_s >= policy.absence_s


def is_to_move(view: JobView, attempt: AttemptView) -> bool:
    """Within a backend only to the better place that was found there."""
    wanted, found = view.migrate_to, view.better
    here = wanted == attempt.offer.backend and (found is None or found.offer.backend != wanted)
    return bool(wanted) and not here
