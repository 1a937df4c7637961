"""What the demo found out, and whether it is as it should be."""

from dataclasses import asdict, dataclass, field
from typing import Any

from anygpu.cli.terminal import formatting

MIN_ACCURACY = 0.95
MAX_RECOVERY_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoMachine:
    """A machine the job was given."""

    name: str
    backend: str
    offer: str
    interruptible: bool
    price_microusd_per_hour: int

    @property
    def label(self) -> str:
        return f"{self.backend} {self.offer}{' spot' if self.interruptible else ''}"


@dataclass(slots=True)
class DemoReport:
    """Facts gathered while the job ran."""

    epochs: int = 0
    job_id: str = ""
    status: str = ""
    accuracy: float | None = None
    places: list[DemoMachine] = field(default_factory=list)
    noticed_at_epoch: int | None = None
    last_epoch_there: int | None = None
    resumed_from_epoch: int | None = None
    work_lost_s: float | None = None
    recovery_s: float | None = None
    points_lost: int | None = None
    model_bytes: int | None = None
    ledger_microusd: int | None = None
    meter_microusd: int | None = None
    machines_left: int | None = None
    took_s: float = 0.0
    failure: dict[str, Any] | None = None

    def add_machine(self, name: str, offer: dict[str, Any]) -> None:
        self.places.append(
            DemoMachine(
                name=name,
                backend=offer["backend"],
                offer=offer.get("name", ""),
                interruptible=bool(offer.get("interruptible")),
                price_microusd_per_hour=offer.get("price_microusd_per_hour", 0),
            )
        )

    def failed_checks(self) -> list[str]:
        """Everything that is not as it should be."""
        return [trouble for right, trouble in [*self._training_checks(), *self._cost_checks()] if not right]

    def _training_checks(self) -> list[tuple[bool, str]]:
        backends = [place.backend for place in self.places]
        recovered = self.recovery_s is not None and self.recovery_s < MAX_RECOVERY_S
        return [
            (self.status == "completed", f"the job ended as {self.status or 'nothing'}: {self.failure}"),
            (self.noticed_at_epoch is not None, "the machine was not taken back"),
            (len(set(backends)) == 2, f"it ran on {backends}, not on two providers"),
            (bool(self.resumed_from_epoch), "the second machine did not start from a checkpoint"),
            ((self.accuracy or 0) >= MIN_ACCURACY, f"the accuracy is {self.accuracy}"),
            (recovered, f"recovery took {self.recovery_s} s"),
            (self.points_lost == 0, f"{self.points_lost} epochs are missing from the curve"),
            (bool(self.model_bytes), "the trained model could not be fetched"),
        ]

    def _cost_checks(self) -> list[tuple[bool, str]]:
        differ = f"the ledger says {self.ledger_microusd}, the provider's meter {self.meter_microusd} micro-dollars"
        return [
            (bool(self.meter_microusd) and self.ledger_microusd == self.meter_microusd, differ),
            (self.machines_left == 0, f"{self.machines_left} machines are left"),
        ]

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "troubles": self.failed_checks()}

    def text(self) -> str:
        troubles = self.failed_checks()
        if troubles:
            listed = "\n".join(f"  - {trouble}" for trouble in troubles)
            return f"\nNot as it should be:\n{listed}\n\n{self._facts()}"
        return f"\nAs it should be:\n\n{self._facts()}\n{NEXT_STEPS}"

    def _cost_text(self) -> str:
        ours, theirs = formatting.money(self.ledger_microusd), formatting.money(self.meter_microusd)
        return f"{ours} by the ledger, {theirs} by the providers' meters"

    def _facts(self) -> str:
        accuracy = "-" if self.accuracy is None else f"{100 * self.accuracy:.1f} % of 400 digits it never saw"
        pairs = [
            ("accuracy", accuracy),
            ("ran on", ", then ".join(place.label for place in self.places)),
            ("taken back", f"at epoch {self.noticed_at_epoch} of {self.epochs}, with notice"),
            ("resumed", f"from epoch {self.resumed_from_epoch}, by itself, on another provider"),
            ("work lost", formatting.duration(self.work_lost_s)),
            (
                "recovery",
                f"{formatting.duration(self.recovery_s)} from the notice to the next measured epoch",
            ),
            ("model", f"{formatting.size(self.model_bytes)}, fetched and verified"),
            ("cost", self._cost_text()),
            ("machines", f"{self.machines_left} left"),
            ("took", formatting.duration(self.took_s)),
        ]
        return "".join(f"  {name:<10} {value}\n" for name, value in pairs)


NEXT_STEPS = """Next:
  anygpu run train.py          your own script, as it is, on this machine
  anygpu host add user@box     a machine of your own, over SSH
  anygpu backend add           a cloud account; `anygpu cloud-sim` is one to rehearse with
  anygpu --help                everything else; examples/ and docs/ have more
"""
