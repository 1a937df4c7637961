"""How often to save, and what interruptions cost: Young's rule with Daly's correction, in seconds."""

from math import exp, inf, sqrt

NEVER = 50.0  # e to this power of lifetimes is never, and still a number to reckon with


def interval_s(save_s: float, between_failures_s: float) -> float:
    """The pause between two checkpoints that wastes least (J. T. Daly, FGCS 22, 2006: second-order estimate)."""
    if between_failures_s == inf or save_s <= 0:
        return inf if between_failures_s == inf else 0.0
    ratio = save_s / (2 * between_failures_s)
    if ratio >= 1:
        return between_failures_s
    return sqrt(2 * save_s * between_failures_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - save_s


def expected_s(
    work_s: float, *, save_s: float, every_s: float, between_failures_s: float, restart_s: float
) -> float:
    """Wall time for `work_s` of training that saves, on machines that die after an exponential time (Daly 2006)."""
    if work_s <= 0:
        return 0.0
    pieces = work_s / every_s if 0 < every_s < inf else 1.0
    piece_s = work_s / pieces + (save_s if every_s < inf else 0.0)
    if between_failures_s == inf:
        return pieces * piece_s
    rate = 1 / between_failures_s
    return (
        between_failures_s
        * exp(min(NEVER, restart_s * rate))
        * (exp(min(NEVER, piece_s * rate)) - 1)
        * pieces
    )


def expected_loss_s(
    work_s: float, *, save_s: float, every_s: float, between_failures_s: float, restart_s: float
) -> float:
    """What saving, dying and going on again add to the work."""
    return (
        expected_s(
            work_s,
            save_s=save_s,
            every_s=every_s,
            between_failures_s=between_failures_s,
            restart_s=restart_s,
        )
        - work_s
    )
