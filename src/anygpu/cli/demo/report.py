"""What the demo found out, and whether it is as it should be."""

from dataclasses import dataclass, field
from typing import Any

from anygpu.cli import words

WANTED_ACCURACY = 0.95
LONGEST_RECOVERY_S = 30.0


@dataclass(slots=True)
class Report:
    """Facts gathered while the job ran."""

    job_id: str = ""
    status: str = ""
    accuracy: float | None = None
    killed_at_epoch: int | None = None
    resumed_from_epoch: int | None = None
    attempts: int = 0
    work_lost_s: float | None = None
    recovery_s: float | None = None
    took_s: float = 0.0
    points_lost: int | None = None
    model_bytes: int | None = None
    epochs: int = 0
    failure: dict[str, Any] | None = field(default=None)

    def troubles(self) -> list[str]:
        """Everything that is not as it should be."""
        checks = [
            (self.status == "completed", f"the job ended as {self.status or 'nothing'}: {self.failure}"),
            (self.killed_at_epoch is not None, "the trainer was not killed"),
            (self.attempts == 2, f"there were {self.attempts} attempts, not 2"),
            (bool(self.resumed_from_epoch), "the second attempt did not start from a checkpoint"),
            (
                (self.accuracy or 0) >= WANTED_ACCURACY,
                f"the accuracy is {self.accuracy}, below {WANTED_ACCURACY}",
            ),
            (
                self.recovery_s is not None and self.recovery_s < LONGEST_RECOVERY_S,
                f"recovery took {self.recovery_s} s",
            ),
            (self.points_lost == 0, f"{self.points_lost} epochs are missing from the curve"),
            (bool(self.model_bytes), "the trained model could not be fetched"),
        ]
        return [trouble for right, trouble in checks if not right]

    def document(self) -> dict[str, Any]:
        names = (
            "job_id",
            "status",
            "accuracy",
            "killed_at_epoch",
            "resumed_from_epoch",
            "attempts",
            "work_lost_s",
        )
        more = ("recovery_s", "took_s", "points_lost", "model_bytes", "epochs")
        return {**{name: getattr(self, name) for name in names + more}, "troubles": self.troubles()}

    def text(self) -> str:
        troubles = self.troubles()
        heading = (
            "As it should be:"
            if not troubles
            else "Not as it should be:\n" + "\n".join(f"  - {trouble}" for trouble in troubles)
        )
        return (
            f"\n{heading}\n\n{self._facts()}\n{NEXT}" if not troubles else f"\n{heading}\n\n{self._facts()}"
        )

    def _facts(self) -> str:
        accuracy = "-" if self.accuracy is None else f"{100 * self.accuracy:.1f} % of 400 digits it never saw"
        pairs = [
            ("accuracy", accuracy),
            ("killed", f"at epoch {self.killed_at_epoch} of {self.epochs}, with SIGKILL"),
            ("resumed", f"from epoch {self.resumed_from_epoch}, by itself"),
            ("work lost", words.duration(self.work_lost_s)),
            ("recovery", f"{words.duration(self.recovery_s)} from the kill to the next measured epoch"),
            ("model", f"{words.size(self.model_bytes)}, fetched and verified"),
            ("took", words.duration(self.took_s)),
        ]
        return "".join(f"  {name:<10} {value}\n" for name, value in pairs)


NEXT = """Next:
  anygpu run train.py          your own script, as it is
  anygpu watch                 its curves
  anygpu up                    the server in the foreground
  anygpu --help                everything else; examples/ and docs/ have more
"""
