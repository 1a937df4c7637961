"""What a simulated provider charges: its own rule, its own clock, its own arithmetic."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from anygpu.testing.virtual import START_MS


@dataclass(slots=True)
class Tariff:
    """Dollars by the hour, counted in steps and with a minimum. The price may change; a machine keeps its own."""

    price: int = 0  # micro-dollars an hour
    step_s: int = 1
    minimum_s: int = 0
    listed: int = 0  # the price around which it goes up and down

    def __post_init__(self) -> None:
        self.listed = self.price

    def change(self, factor: float) -> None:
        self.price = round(self.listed * factor)

    def charge(self, price: int, launched: float, ended: float) -> int:
        """To the nearest micro-dollar, for the whole seconds that the customer is shown."""
        seconds = shown_ms(ended) // 1000 - shown_ms(launched) // 1000
        counted = max(self.minimum_s, ceil(Fraction(seconds, self.step_s)) * self.step_s)
        return floor(Fraction(price * counted, 3600) + Fraction(1, 2))


def shown_ms(at: float) -> int:
    """By the provider's clock, which never jumps."""
    return START_MS + round(at * 1000)
