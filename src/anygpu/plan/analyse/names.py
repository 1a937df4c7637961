"""Values by the names people give them, where no call says what they are for."""

from anygpu.plan.analyse.code import Code, whole
from anygpu.plan.analyse.facts import normal
from anygpu.plan.analyse.findings import GUESS, Found
from anygpu.plan.analyse.settings import Value

BOOSTERS = ("xgboost", "lightgbm", "catboost")


def numeric(code: Code, names: tuple[str, ...]) -> Value | None:
    """The first of the names that has a number; config sections come with their prefix."""
    for name in names:
        told = code.settings.named(name)
        if told is not None and isinstance(told.value, int | float) and not isinstance(told.value, bool):
            return told
    return None


def keyword(code: Code, names: tuple[str, ...]) -> Found[int] | None:
    """Last resort: the name as a keyword of any call, `train(model, batch_size=64)`."""
    for name in names:
        for bound in code.facts.assigned.get("=" + normal(name), ()):
            found = whole(code.settings.number(bound.node), confidence=GUESS)
            if found is not None:
                return found
    return None
