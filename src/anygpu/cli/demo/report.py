"""The demo's results, the checks on them, and the text printed at the end."""

from dataclasses import asdict, dataclass, field
from typing import Any

from anygpu.cli.terminal import formatting

MIN_ACCURACY = 0.95
MAX_RECOVERY_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoMachine:
    """A simulated machine that ran an attempt of the demo's job."""

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
    """The results collected while the demo's job ran."""

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
        """Return one sentence for each failed check; an empty list if all passed."""
        checks = [*self._training_checks(), *self._cost_checks()]
        return [message for passed, message in checks if not passed]

    def _training_checks(self) -> list[tuple[bool, str]]:
        backends = [place.backend for place in self.places]
        recovered = self.recovery_s is not None and self.recovery_s < MAX_RECOVERY_S
        return [
            (self.status == "completed", f"the job's status is {self.status or 'unknown'}: {self.failure}"),
            (self.noticed_at_epoch is not None, "the machine was not preempted"),
            (len(set(backends)) == 2, f"the job ran on {backends}, not on two providers"),
            (bool(self.resumed_from_epoch), "the job did not resume from a checkpoint"),
            (
                (self.accuracy or 0) >= MIN_ACCURACY,
                f"the accuracy is {self.accuracy}, less than {MIN_ACCURACY}",
            ),
            (recovered, f"recovery took {self.recovery_s} s, more than {MAX_RECOVERY_S:.0f} s"),
            (self.points_lost == 0, f"metrics of {self.points_lost} epochs are missing"),
            (bool(self.model_bytes), "the trained model was not downloaded"),
        ]

    def _cost_checks(self) -> list[tuple[bool, str]]:
        differ = f"anygpu counted {self.ledger_microusd} micro-dollars, the providers charged {self.meter_microusd}"
        return [
            (bool(self.meter_microusd) and self.ledger_microusd == self.meter_microusd, differ),
            (self.machines_left == 0, f"{self.machines_left} machines are still running"),
        ]

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "troubles": self.failed_checks()}

    def text(self) -> str:
        failed = self.failed_checks()
        if failed:
            listed = "\n".join(f"  - {message}" for message in failed)
            return f"\nDemo finished: {len(failed)} checks failed.\n{listed}\n\n{self._facts()}"
        return f"\nDemo finished: every check passed.\n\n{self._facts()}\n{NEXT_STEPS}"

    def _cost_text(self) -> str:
        counted, charged = formatting.money(self.ledger_microusd), formatting.money(self.meter_microusd)
        return f"{counted} counted by anygpu, {charged} charged by the providers"

    def _facts(self) -> str:
        accuracy = (
            "-"
            if self.accuracy is None
            else f"{100 * self.accuracy:.1f} % on 400 images not used for training"
        )
        pairs = [
            ("accuracy", accuracy),
            ("ran on", ", then ".join(place.label for place in self.places)),
            ("preempted", f"at epoch {self.noticed_at_epoch} of {self.epochs}"),
            ("resumed", f"from epoch {self.resumed_from_epoch}"),
            ("work lost", formatting.duration(self.work_lost_s)),
            (
                "recovery",
                f"{formatting.duration(self.recovery_s)} from the notice to the next epoch",
            ),
            ("model", f"{formatting.size(self.model_bytes)}, downloaded and verified"),
            ("cost", self._cost_text()),
            ("machines", f"{self.machines_left} still running"),
            ("duration", formatting.duration(self.took_s)),
        ]
        return "".join(f"  {name:<10} {value}\n" for name, value in pairs)


NEXT_STEPS = """Next steps:
  anygpu run train.py          run your own script on this computer
  anygpu host add user@host    add a machine of your own over SSH
  anygpu backend add           add a cloud account
  anygpu --help                list all commands
"""
