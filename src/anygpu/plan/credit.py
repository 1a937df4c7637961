"""What a run costs in money where the organisation has credit left: credit is spent first, and is not free.

Decided in docs/decisions/0010-credit-is-spent-first.md. Costs and credit in micro-dollars.
"""

HALF = 0.5  # of a dollar: what a dollar of credit counts


def from_pocket(cost: float, credit: float) -> float:
    """What is left to pay when the credit is gone."""
    return max(0.0, cost - credit)


def weighed(cost: float, credit: float) -> float:
    """Rises with the cost. A dollar of credit could pay for something else, a dollar of money for anything."""
    return from_pocket(cost, credit) + HALF * min(cost, credit)
