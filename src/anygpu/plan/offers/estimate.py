"""What is asked of one place at a time: how long, what it costs, whether it will do, and how sure that is."""

from collections.abc import Callable
from dataclasses import dataclass, field

from anygpu.events.offers import MICROUSD, Offer
from anygpu.plan.analyse.findings import SURE, Analysis, WorkloadCharacteristics
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.torch_wheels import torch_mismatch
from anygpu.plan.offers.bill import (
    Bill,
    Overheads,
    RunEstimate,
    RunTime,
    Span,
    egress_microusd,
    estimate_bill,
    run_time,
)
from anygpu.plan.offers.candidates import Candidate, location_of
from anygpu.plan.offers.fit import has_resume_path, location_mismatch, too_small_reason, unsuitable_reason
from anygpu.plan.offers.wording import describe_duration
from anygpu.plan.predict.step_time import ADAPTER_SHARE
from anygpu.spec.jobspec import JobSpec

CPU_SLOWDOWN = 20.0  # times as long as on the reference
GB_PER_GIB = 1.073741824  # decimal gigabytes
UNKNOWN_DURATION = Span(
    expected=2 * 3600.0, low=720.0, high=72_000.0
)  # nothing says how long: wide enough to be true
INSTALL_S, READY_S = 60.0, 0.5  # from a machine that answers to the first step
CONFIDENCE_LEVELS = ("low", "medium", "high")
NARROW_RATIO, WIDE_RATIO = 2.0, 5.0  # the high end over the low end of what history says

# What is known of the time on an offer beside the code; the same where size, name, region and price alone differ.
DurationLookup = Callable[[Offer], Span | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationPrediction:
    """Uninterrupted training, and what says so: the job itself, history, its code, or nothing."""

    training_s: Span
    basis: str  # said | history | code | nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """A job, what was read of its code, and what else is known. `deadline_s`: from now."""

    spec: JobSpec
    analysis: Analysis | None = None
    deadline_s: float | None = None
    past_duration: DurationLookup | None = None
    # What was asked once for each sort of GPU.
    _gpu_reasons: dict[tuple[str, int, float, str, bool], str] = field(
        default_factory=dict, repr=False, compare=False
    )
    _code_predictions: dict[tuple[str, float, int], DurationPrediction] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def characteristics(self) -> WorkloadCharacteristics | None:
        return self.analysis.characteristics if self.analysis is not None else None

    def predict_duration(self, offer: Offer) -> DurationPrediction:
        """What the job says of itself wins over history, and history over the code."""
        stated_s = self.spec.placement.expected_duration_s
        if stated_s:
            return DurationPrediction(
                training_s=Span(expected=stated_s, low=0.8 * stated_s, high=1.25 * stated_s), basis="said"
            )
        from_history = self.past_duration(offer) if self.past_duration is not None else None
        if from_history is not None:
            return DurationPrediction(training_s=from_history, basis="history")
        machine = offer.gpu_kind, offer.gpu_memory_gib, offer.gpu_count
        if machine not in self._code_predictions:
            self._code_predictions[machine] = self._predict_from_code(*machine)
        return self._code_predictions[machine]

    def bill(self, candidate: Candidate, training_s: Span) -> Bill:
        return estimate_bill(candidate.offer, *self._run_estimate(candidate, training_s))

    def run_time_and_egress(self, candidate: Candidate, training_s: Span) -> tuple[RunTime, int]:
        """Of the bill what decides the order of places: how long, in how many runs, the price of what leaves."""
        run, overheads = self._run_estimate(candidate, training_s)
        return run_time(candidate.offer, run, overheads, training_s.expected), egress_microusd(run, overheads)

    def _run_estimate(self, candidate: Candidate, training_s: Span) -> tuple[RunEstimate, Overheads]:
        needs = self.characteristics
        data_gib = needs.dataset_size_gb.value / GB_PER_GIB if needs is not None else 0.0
        overheads = Overheads(
            boot_s=candidate.boot_s, egress_microusd_per_gib=candidate.egress_microusd_per_gib
        )
        run = RunEstimate(
            training_s=training_s,
            upload_gib=data_gib,
            download_gib=_model_gib(self.analysis),
            setup_s=self._setup_s(candidate),
            resumes=self.can_resume,
        )
        return run, overheads

    @property
    def can_resume(self) -> bool:
        """Whether anything shows that the job goes on where another run of it stopped."""
        shown = self.characteristics is not None and self.characteristics.interruptible.value
        return shown or has_resume_path(self.spec)

    def _setup_s(self, candidate: Candidate) -> float:
        """A machine of one's own has what a job without requirements needs."""
        spec = self.spec
        given = spec.requirements or spec.setup or spec.image
        return READY_S if candidate.configured and not candidate.offer.is_paid and not given else INSTALL_S

    def unsuitable_reason(self, candidate: Candidate) -> str:
        """Why no place of its family will do, whatever its size and wherever it stands."""
        resumes = self.characteristics is not None and self.characteristics.interruptible.value
        if reason := unsuitable_reason(self.spec, candidate.offer, resumable=resumes):
            return reason
        if self.spec.placement.dedicated and not candidate.dedicated:
            return "is shared with others, and the job wants a machine of its own"
        return self.unsupported_gpu_reason(candidate.offer)

    def unsupported_gpu_reason(self, offer: Offer) -> str:
        """Why what the job is read to need and to install does not run on its GPU; empty when it does."""
        gpu = offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.driver, offer.is_paid
        if gpu not in self._gpu_reasons:
            self._gpu_reasons[gpu] = (
                self._missing_gpu_reason(offer)
                or self.torch_mismatch(offer)
                or _gpu_memory_reason(self.characteristics, offer)
            )
        return self._gpu_reasons[gpu]

    def _missing_gpu_reason(self, offer: Offer) -> str:
        needs = self.analysis.needs_gpu if self.analysis is not None else None
        if offer.gpu_count or needs is None or not needs.value or needs.confidence < SURE:
            return ""
        return f"has no GPU, and the code needs one: {needs.location} {needs.because}"

    def torch_mismatch(self, offer: Offer) -> str:
        """Why its GPU or driver does not run the torch the job installs, which is no prediction but a fact.

        A trainer's framework is installed where the job does not say what there is; on a machine of one's own it may be
        there already.
        """
        spec, installs = self.spec, self.spec.requirements
        framework = spec.trainer and offer.is_paid and not (installs or spec.python or spec.image)
        if framework or isinstance(installs, str):
            installs = self.analysis.requirements if self.analysis is not None else ()
        if not installs or not offer.gpu_count:
            return ""
        gpu = gpus.spec(offer.gpu_kind, memory_gib=offer.gpu_memory_gib) if offer.gpu_kind else None
        return torch_mismatch(installs, gpu, offer.driver)

    def rejection_reason(self, candidate: Candidate, found: Bill) -> str:
        """Why it is not to be chosen, by what it is or by the limits of the job; empty when it may be."""
        limit = self.spec.limits.max_cost_microusd
        dear = limit is not None and found.cost_microusd.expected > limit
        return (
            self.unsuitable_reason(candidate)
            or self.max_run_reason(candidate, found.wall_s.expected, found.runs)
            or self.late_reason(found.wall_s.expected)
            or too_small_reason(self.spec.resources, candidate.offer)
            or location_mismatch(self.spec, location_of(candidate.offer))
            or (self.over_limit_reason if dear else "")
        )

    def max_run_reason(self, candidate: Candidate, wall_s: float, runs: int) -> str:
        """Why the longest run that is allowed there is too short; not by a doubtful prediction, nor of code unseen."""
        longest_s = candidate.offer.max_run_or_inf_s
        if (
            wall_s <= longest_s
            or runs > 1
            or self.characteristics is None
            or self._confidence(self.predict_duration(candidate.offer)) == "low"
        ):
            return ""
        return (
            f"lets a run last {describe_duration(longest_s)} at most, and nothing shows that the job can resume;"
            " give checkpoint.paths"
        )

    def late_reason(self, wall_s: float) -> str:
        if self.deadline_s is None or wall_s <= self.deadline_s:
            return ""
        return f"would take longer than the {self.deadline_s / 3600:.1f} h until the deadline"

    @property
    def over_limit_reason(self) -> str:
        return (
            f"would cost more than the ${(self.spec.limits.max_cost_microusd or 0) / MICROUSD:,.2f} allowed"
        )

    def confidence(self, candidate: Candidate, prediction: DurationPrediction) -> str:
        found = self._confidence(prediction)
        return "medium" if found == "high" and candidate.stale_days else found

    def leaves_gpus_idle(self, offer: Offer) -> bool:
        """Whether the code would use only one of its GPUs."""
        return self.analysis is not None and self.analysis.multi_gpu is None and offer.gpu_count > 1

    def _predict_from_code(self, kind: str, memory_gib: float, count: int) -> DurationPrediction:
        """A machine whose GPU nobody knows counts as the reference."""
        analysis, effort = (
            self.analysis,
            self.characteristics.effort if self.characteristics is not None else None,
        )
        if analysis is None or effort is None:
            return DurationPrediction(training_s=UNKNOWN_DURATION, basis="nothing")
        on_gpu = analysis.needs_gpu is None or analysis.needs_gpu.value
        here = gpus.spec(kind, memory_gib=memory_gib) if kind and on_gpu else None
        if here is None:
            slower = CPU_SLOWDOWN if on_gpu and not count else 1.0
            return DurationPrediction(training_s=effort.duration_on_unknown(slower=slower), basis="code")
        used = max(1, count) if analysis.multi_gpu is not None else 1
        return DurationPrediction(training_s=effort.duration_on(here, gpus=used), basis="code")

    def _confidence(self, prediction: DurationPrediction) -> str:
        match prediction.basis:
            case "said":
                return "high"
            case "history":
                times = prediction.training_s.high / max(1.0, prediction.training_s.low)
                return CONFIDENCE_LEVELS[(times <= WIDE_RATIO) + (times <= NARROW_RATIO)]
            case _:
                return (
                    self.characteristics.duration_hours.confidence_level
                    if self.characteristics is not None
                    else "low"
                )


def _model_gib(analysis: Analysis | None) -> float:
    """What leaves the machine at the end, where the size of the model is known: its weights, or only its adapters."""
    if analysis is None or analysis.parameters is None:
        return 0.0
    share = ADAPTER_SHARE if analysis.adapters is not None else 1.0
    size = 2 if analysis.half_weights is not None and analysis.half_weights.value else 4
    return analysis.parameters.value * share * size / 2**30


def _gpu_memory_reason(needs: WorkloadCharacteristics | None, offer: Offer) -> str:
    """By what the code is predicted to need, beside what the job asks for."""
    needed_gb = needs.gpu_memory_gb.value if needs is not None else 0.0
    has_gb = offer.gpu_memory_gib * GB_PER_GIB
    if not needed_gb or not offer.gpu_count or not has_gb or needed_gb <= has_gb:
        return ""
    return f"holds {has_gb:.0f} GB a GPU; training is predicted to need {needed_gb:.0f} GB"
