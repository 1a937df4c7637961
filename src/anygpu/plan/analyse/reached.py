"""Which functions the script comes to: what a module beside it does in a test of its own is not the training."""

from anygpu.plan.analyse.facts import Call, Facts


def reached(facts: Facts) -> set[tuple[str, str]]:
    """File and name of every function that the script calls, itself or through others."""
    homes = _homes(facts)
    by_place: dict[tuple[str, str], list[Call]] = {}
    for call in facts.calls:
        by_place.setdefault((call.file, call.around.function), []).append(call)
    first = facts.sources[0].name if facts.sources else ""
    waiting = [place for place in by_place if place[0] == first or not place[1]]
    found = set(waiting)
    while waiting:
        for call in by_place.get(waiting.pop(), ()):
            files = homes.get(call.last, set())
            for file in {call.file} & files or files:
                if (file, call.last) not in found:
                    found.add((file, call.last))
                    waiting.append((file, call.last))
    return found


def _homes(facts: Facts) -> dict[str, set[str]]:
    """Where functions of each name are written."""
    homes: dict[str, set[str]] = {}
    for name, file in facts.defined:
        homes.setdefault(name, set()).add(file)
    return homes


def outside(facts: Facts) -> list[Call]:
    """Calls in plain functions of other files that the script never comes to."""
    if len(facts.sources) < 2:
        return []
    come_to = reached(facts)
    return [
        call
        for call in facts.calls
        if call.around.function and not call.around.owner and (call.file, call.around.function) not in come_to
    ]
