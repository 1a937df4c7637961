"""The organisation's own prices: discounts on list prices, credits, and prices of its own machines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from anygpu.errors import InvalidSpec, Problem
from anygpu.plan.catalog.terms import find_clouds
from anygpu.spec import units

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPolicy:
    """The organisation's discounts (0 to 1), credits, and hourly prices of its own machines.

    Discounts are by cloud or by `cloud/instance type`, credits by cloud, prices of own machines by backend.
    """

    discounts: Mapping[str, float] = field(default_factory=dict)
    credits_microusd: Mapping[str, int] = field(default_factory=dict)
    own_microusd_per_hour: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_settings(
        cls, *, discounts: Iterable[str] = (), credits: Iterable[str] = (), own_prices: Iterable[str] = ()
    ) -> "CatalogPolicy":
        """Parse the organisation's settings.

        Examples: discounts `aws=10%` and `ec2/p5.48xlarge=25%`, credit `gcp=$300`, own price `lab=0.35`.
        """
        return cls(
            discounts=_parse_by_cloud("catalog.discounts", discounts, _parse_percentage),
            credits_microusd=_parse_by_cloud("catalog.credits", credits, units.microdollars),
            own_microusd_per_hour=_parse_pairs("catalog.own_prices", own_prices, units.microdollars),
        )

    def price(self, cloud: str, instance_type: str, list_microusd: int) -> int:
        """Return the discounted price per hour in micro-dollars.

        A discount for the instance type overrides the cloud's discount.
        """
        part = self.discounts.get(f"{cloud}/{instance_type}", self.discounts.get(cloud, 0.0))
        return round(list_microusd * (1 - part))

    def credit_microusd(self, cloud: str) -> int:
        return self.credits_microusd.get(cloud, 0)


NO_POLICY = CatalogPolicy()


def _parse_percentage(text: str) -> float:
    try:
        percent = float(text.removesuffix("%")) if text.endswith("%") else -1
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        raise ValueError("is not a discount; write a percentage from 0% to 100%, such as 12.5%")
    return percent / 100


def _parse_by_cloud(setting: str, texts: Iterable[str], analysis: Callable[[str], T]) -> dict[str, T]:
    """Parse entries like `aws=10%` into values by cloud.

    An entry for a provider applies to all clouds of the provider, except those with an entry of their own.
    """
    spread: dict[str, T] = {}
    exact: dict[str, T] = {}
    for name, value in _parse_pairs(setting, texts, analysis).items():
        cloud, slash, kind = name.partition("/")
        clouds = find_clouds(cloud)
        if not clouds:
            raise _invalid(
                setting, name, f"there is no cloud {cloud!r}; `anygpu catalog clouds` lists the clouds"
            )
        (exact if clouds == (cloud,) else spread).update({f"{each}{slash}{kind}": value for each in clouds})
    return spread | exact


def _parse_pairs(setting: str, texts: Iterable[str], analysis: Callable[[str], T]) -> dict[str, T]:
    values: dict[str, T] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise _invalid(setting, text, f"{text!r} is not NAME=VALUE; write a name, `=` and a value")
        try:
            values[name.strip()] = analysis(value.strip())
        except ValueError as error:
            raise _invalid(setting, text, f"{text!r}: {value.strip()!r} {error}") from None
    return values


def _invalid(setting: str, value: str, message: str) -> InvalidSpec:
    return InvalidSpec([Problem(setting, value, message, source="settings")])
