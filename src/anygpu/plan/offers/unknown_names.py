"""Find names in a job's placement that no candidate has, such as a misspelt region. Pure functions."""

from anygpu.plan.offers.candidates import CandidateSet
from anygpu.plan.offers.fit import requested_names
from anygpu.spec.jobspec import JobSpec
from anygpu.suggest import suggestion

NOUNS = ("region", "zone", "machine type")  # in the order of the fields of `Location`
COMMANDS = (
    "`anygpu catalog show` lists regions.",
    "`anygpu plan` without a zone lists the zones of your backends.",
    "`anygpu catalog show` lists machine types.",
)


def unknown_names(spec: JobSpec, candidates: CandidateSet) -> tuple[str, ...]:
    """Return a message for each region, zone and machine type that the job names and no candidate has."""
    messages = []
    for requested in requested_names(spec):
        known = candidates.location_names(requested.field)
        if requested.name not in known:
            hint = suggestion(requested.name, sorted(known), COMMANDS[requested.field])
            messages.append(f"No offer has the {NOUNS[requested.field]} {requested.name!r}. {hint}")
    return tuple(messages)
