"""Estimate for one candidate how long a job takes, what it costs, and whether it fits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from anygpu.events.offers import MICROUSD, Offer
from anygpu.plan.analyse.findings import SURE, Analysis, WorkloadCharacteristics
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.networks import Network, find_network
from anygpu.plan.offers.availability import OfferAvailability, availability
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
from anygpu.plan.offers.consent import FORBIDDEN, allows_paid
from anygpu.plan.offers.fit import (
    NO_RESUME_PATH,
    excluded_backend_reason,
    has_resume_path,
    location_mismatch,
    offer_torch_mismatch,
    too_small_reason,
    unsuitable_reason,
)
from anygpu.plan.offers.nodes import compare_with_one_node, one_process_reason
from anygpu.plan.offers.wording import describe_duration
from anygpu.plan.predict.step_time import ADAPTER_SHARE, UNKNOWN_NETWORK, Effort
from anygpu.spec.jobspec import JobSpec

CPU_SLOWDOWN = 20.0  # compared with the reference GPU
GB_PER_GIB = 1.073741824
UNKNOWN_DURATION = Span(expected=2 * 3600.0, low=720.0, high=72_000.0)
INSTALL_S, READY_S = 60.0, 0.5  # from the end of the boot to the first step
NO_GPU = "has no GPU, and the code needs one"
CONFIDENCE_LEVELS = ("low", "medium", "high")
NARROW_RATIO, WIDE_RATIO = 2.0, 5.0  # high end over low end of a prediction from history

# Training time on an offer, from other sources than the code. It may not depend on size, name, region or price.
DurationLookup = Callable[[Offer], Span | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationPrediction:
    """The predicted duration of training without interruptions, and the source of the prediction."""

    training_s: Span
    basis: str  # said (stated by the job) | history | code | nothing


class MachineType(NamedTuple):
    """What the time that is predicted from the code depends on."""

    gpu_kind: str
    gpu_memory_gib: float
    gpu_count: int  # that the job uses
    network: Network | None  # between the nodes; None for one node


class PredictedProblem(NamedTuple):
    """A problem that the job is predicted to have on a candidate, such as too little GPU memory.

    If the problem is doubtful, the candidate is not rejected but gets a warning and a lower rank.
    """

    reason: str
    is_doubtful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Estimates time and cost of a job from its spec, the analysis of its code and its past runs.

    `deadline_s` is in seconds from now.
    """

    spec: JobSpec
    analysis: Analysis | None = None
    deadline_s: float | None = None
    past_duration: DurationLookup | None = None
    rough_duration: Span | None = None  # from past runs on other machines, if nothing else is known
    allow_paid: bool = True  # for jobs whose spec does not say whether they may use paid machines
    resumable: bool | None = None  # None: decided from the spec and the analysis
    # Results per GPU configuration.
    _gpu_reasons: dict[tuple[str, int, float, str, bool], str] = field(
        default_factory=dict, repr=False, compare=False
    )
    _code_predictions: dict[MachineType, DurationPrediction] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def characteristics(self) -> WorkloadCharacteristics | None:
        return self.analysis.characteristics if self.analysis is not None else None

    def needs_consent(self, candidate: Candidate) -> bool:
        """Return whether the candidate costs money, which the job does not allow yet."""
        return candidate.offer.is_rented and not allows_paid(self.spec, default=self.allow_paid)

    @property
    def nodes(self) -> int:
        """How many machines the job needs at the same time."""
        return self.spec.resources.nodes

    def availability(self, candidate: Candidate) -> OfferAvailability:
        return availability(candidate, needs_consent=self.needs_consent(candidate), nodes=self.nodes)

    def predict_duration(self, offer: Offer) -> DurationPrediction:
        """Predict the training time on an offer.

        The first available source is used: the duration stated in the spec, past runs on comparable machines,
        the analysed code, past runs on other machines.
        """
        stated_s = self.spec.placement.expected_duration_s
        if stated_s:
            return DurationPrediction(
                training_s=Span(expected=stated_s, low=0.8 * stated_s, high=1.25 * stated_s), basis="said"
            )
        from_history = self.past_duration(offer) if self.past_duration is not None else None
        if from_history is not None:
            return DurationPrediction(training_s=from_history, basis="history")
        machine = self._machine_type(offer)
        if machine not in self._code_predictions:
            self._code_predictions[machine] = self._predict_from_code(machine)
        return self._code_predictions[machine]

    def _machine_type(self, offer: Offer) -> MachineType:
        network = find_network(offer.name, offer.interconnect) if self.nodes > 1 else None
        return MachineType(offer.gpu_kind, offer.gpu_memory_gib, self._gpus_for_job(offer), network)

    def _gpus_for_job(self, offer: Offer) -> int:
        """Return how many GPUs of a machine the job gets: all, or those it asks for if other jobs get the rest."""
        gpu = self.spec.resources.gpu
        return min(gpu.count, offer.gpu_count) if gpu is not None and offer.shared else offer.gpu_count

    def bill(self, candidate: Candidate, training_s: Span) -> Bill:
        return estimate_bill(candidate.offer, *self._run_estimate(candidate, training_s))

    def run_time_and_egress(self, candidate: Candidate, training_s: Span) -> tuple[RunTime, int]:
        """Return the run time, and the cost of downloads (egress) in micro-dollars. Candidates are ranked by these."""
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
            nodes=self.nodes,
        )
        return run, overheads

    @property
    def can_resume(self) -> bool:
        """Whether the job continues from its checkpoint after an interruption."""
        return has_resume_path(self.spec, self.analysis) if self.resumable is None else self.resumable

    def _setup_s(self, candidate: Candidate) -> float:
        """Return the seconds from the end of the boot to the first training step.

        The time is short on an own machine if the job installs nothing.
        """
        spec = self.spec
        installs = spec.requirements or spec.setup or spec.image
        return READY_S if candidate.configured and not candidate.offer.is_paid and not installs else INSTALL_S

    def unsuitable_reason(self, candidate: Candidate) -> str:
        """Return why no machine with this GPU, backend and speed fits the job, whatever its size and location.

        Return an empty string if one may fit.
        """
        resumable = (self.can_resume or None) if self.resumable is None else self.resumable
        if not candidate.offer.answered:
            return excluded_backend_reason(self.spec, candidate.offer) or candidate.offer.wait_reason
        if reason := unsuitable_reason(self.spec, candidate.offer, resumable=resumable):
            return reason
        if self.spec.placement.paid is False and candidate.offer.is_rented:
            return FORBIDDEN
        if self.spec.placement.dedicated and not candidate.dedicated:
            return "is shared with other customers; the job requires a dedicated machine"
        return ""

    def unsupported_gpu_reason(self, offer: Offer) -> str:
        """Return why the analysed code does not run on the offer's GPU; empty if it does."""
        gpu = offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.driver, offer.is_paid
        if gpu not in self._gpu_reasons:
            self._gpu_reasons[gpu] = self._missing_gpu_reason(offer) or self._analysed_torch_mismatch(offer)
        return self._gpu_reasons[gpu]

    def _missing_gpu_reason(self, offer: Offer) -> str:
        needs = self.analysis.needs_gpu if self.analysis is not None else None
        gpu = self.spec.resources.gpu
        refuses_gpu = gpu is not None and not gpu.count
        if offer.gpu_count or refuses_gpu or needs is None or not needs.value or needs.confidence < SURE:
            return ""
        return f"{NO_GPU}: {needs.location} {needs.because}"

    def _analysed_torch_mismatch(self, offer: Offer) -> str:
        """Return why the torch that the requirements file or the trainer needs does not run on the offer.

        Return an empty string if it does. The packages of a trainer are checked on rented machines only,
        because own machines may already have them, and only if the spec sets no requirements, Python or image.
        """
        spec, installs = self.spec, self.spec.requirements
        of_trainer = spec.trainer and offer.is_rented and not (installs or spec.python or spec.image)
        if self.analysis is None or not (of_trainer or isinstance(installs, str)):
            return ""
        return offer_torch_mismatch(self.analysis.requirements, offer)

    def rejection_reason(self, candidate: Candidate, bill: Bill) -> str:
        """Return why the candidate does not fit the job or exceeds one of its limits; empty if it fits."""
        problem = self.predicted_problem(candidate, bill.wall_s.expected, bill.runs)
        return (
            self.unsuitable_reason(candidate)
            or (problem.reason if problem is not None and not problem.is_doubtful else "")
            or too_small_reason(self.spec.resources, candidate.offer)
            or location_mismatch(self.spec, location_of(candidate.offer))
            or (self.over_limit_reason if self._exceeds_limit(candidate, bill, doubtful=False) else "")
        )

    def doubt(self, candidate: Candidate, bill: Bill) -> str:
        """Return a problem that the candidate may have, but that is too uncertain to reject it; empty if none."""
        problem = self.predicted_problem(candidate, bill.wall_s.expected, bill.runs)
        if problem is not None and problem.is_doubtful:
            return problem.reason
        return self.over_limit_reason if self._exceeds_limit(candidate, bill, doubtful=True) else ""

    def predicted_problem(self, candidate: Candidate, wall_s: float, runs: int) -> PredictedProblem | None:
        """Return the problem that the analysis of the job predicts for this machine at any price; None if none.

        On an own machine every problem is doubtful, because trying costs nothing.
        """
        offer = candidate.offer
        is_own = not offer.is_rented
        if unsupported := self.unsupported_gpu_reason(offer):
            return PredictedProblem(unsupported, is_own)
        if memory := self.gpu_memory_reason(offer):
            return PredictedProblem(memory, is_own or self._doubts_memory)
        if too_long := self.max_run_reason(candidate, wall_s, runs):
            return PredictedProblem(too_long, is_own)
        if late := self.late_reason(wall_s):
            return PredictedProblem(late, is_own or self.doubts_duration(offer))
        return None

    def doubts_duration(self, offer: Offer) -> bool:
        """Return whether the predicted time on the offer is too uncertain to reject the offer."""
        return self._confidence(self.predict_duration(offer)) == "low"

    def doubts_cost(self, offer: Offer) -> bool:
        """Return whether the predicted cost is too uncertain to reject the offer. It always is on own machines."""
        return not offer.is_rented or self.doubts_duration(offer)

    @property
    def _doubts_memory(self) -> bool:
        """Whether the predicted GPU memory is too uncertain to reject an offer, or the job itself names the GPU."""
        gpu, needs = self.spec.resources.gpu, self.characteristics
        if gpu is not None and (gpu.kind or gpu.memory_gib):
            return True
        return needs is None or needs.gpu_memory_gb.confidence_level == "low"

    def _exceeds_limit(self, candidate: Candidate, bill: Bill, *, doubtful: bool) -> bool:
        limit = self.spec.limits.max_cost_microusd
        if limit is None or bill.cost_microusd.expected <= limit:
            return False
        return self.doubts_cost(candidate.offer) is doubtful

    def gpu_memory_reason(self, offer: Offer) -> str:
        """Return why the GPU has too little memory for the predicted need.

        Return an empty string if the GPU has enough memory, or if its memory or the need is unknown.
        """
        needs = self.characteristics
        needed_gb = needs.gpu_memory_gb.value if needs is not None else 0.0
        has_gb = offer.gpu_memory_gib * GB_PER_GIB
        if not needed_gb or not offer.gpu_count or not has_gb or needed_gb <= has_gb:
            return ""
        return f"has {has_gb:.0f} GB of memory per GPU; training is predicted to need {needed_gb:.0f} GB"

    def max_run_reason(self, candidate: Candidate, wall_s: float, runs: int) -> str:
        """Return why the offer's maximum run time is too short for the job.

        Return an empty string if the time suffices, if the prediction has low confidence, or if the code
        was not analysed.
        """
        longest_s = candidate.offer.max_run_or_inf_s
        if (
            wall_s <= longest_s
            or runs > 1
            or self.characteristics is None
            or self.doubts_duration(candidate.offer)
        ):
            return ""
        return f"allows a run of at most {describe_duration(longest_s)}, and {NO_RESUME_PATH}"

    def late_reason(self, wall_s: float) -> str:
        if self.deadline_s is None or wall_s <= self.deadline_s:
            return ""
        return f"would take longer than the {self.deadline_s / 3600:.1f} h until the deadline"

    @property
    def over_limit_reason(self) -> str:
        return (
            f"would cost more than the ${(self.spec.limits.max_cost_microusd or 0) / MICROUSD:,.2f}"
            " allowed by max_cost"
        )

    def confidence(self, candidate: Candidate, prediction: DurationPrediction) -> str:
        level = self._confidence(prediction)
        return "medium" if level == "high" and candidate.stale_days else level

    def leaves_gpus_idle(self, offer: Offer) -> bool:
        """Return whether the code uses only one of the offer's several GPUs."""
        return self.analysis is not None and self.analysis.multi_gpu is None and offer.gpu_count > 1

    def nodes_reason(self, offer: Offer) -> str:
        """Return why fewer nodes would be better for the job; empty if its nodes are worth their price.

        Only the code is judged: if the time is stated or known from past runs, nothing is predicted for one node.
        """
        if self.nodes == 1 or self.predict_duration(offer).basis != "code":
            return ""
        machine = self._machine_type(offer)
        gpu, effort = self._find_gpu_spec(machine), self._effort
        if gpu is None or effort is None:
            return ""
        if self.analysis is None or self.analysis.multi_gpu is None:
            return one_process_reason(self.nodes)
        return compare_with_one_node(
            effort, gpu, nodes=self.nodes, gpus=machine.gpu_count, network=machine.network
        )

    def _predict_from_code(self, machine: MachineType) -> DurationPrediction:
        """Predict the training time on a machine from the code.

        An unknown GPU is assumed to be the reference GPU.
        """
        analysis, effort = self.analysis, self._effort
        if (analysis is None or effort is None) and self.rough_duration is not None:
            return DurationPrediction(training_s=self.rough_duration, basis="history")
        if analysis is None or effort is None:
            return DurationPrediction(training_s=UNKNOWN_DURATION, basis="nothing")
        gpu = self._find_gpu_spec(machine)
        if gpu is None:
            slower = CPU_SLOWDOWN if self._trains_on_gpu and not machine.gpu_count else 1.0
            return DurationPrediction(training_s=effort.duration_on_unknown(slower=slower), basis="code")
        if analysis.multi_gpu is None:
            return DurationPrediction(training_s=effort.duration_on(gpu), basis="code")
        training_s = effort.duration_on(
            gpu,
            gpus=max(1, machine.gpu_count),
            nodes=self.nodes,
            network=machine.network or UNKNOWN_NETWORK,
        )
        return DurationPrediction(training_s=training_s, basis="code")

    @property
    def _effort(self) -> Effort | None:
        return self.characteristics.effort if self.characteristics is not None else None

    @property
    def _trains_on_gpu(self) -> bool:
        gpu, needs = self.spec.resources.gpu, self.analysis.needs_gpu if self.analysis is not None else None
        return (gpu is not None and gpu.count > 0) or needs is None or needs.value

    def _find_gpu_spec(self, machine: MachineType) -> gpus.GpuSpec | None:
        if not machine.gpu_kind or not self._trains_on_gpu:
            return None
        return gpus.spec(machine.gpu_kind, memory_gib=machine.gpu_memory_gib)

    def _confidence(self, prediction: DurationPrediction) -> str:
        match prediction.basis:
            case "said":
                return "high"
            case "history":
                ratio = prediction.training_s.high / max(1.0, prediction.training_s.low)
                return CONFIDENCE_LEVELS[(ratio <= WIDE_RATIO) + (ratio <= NARROW_RATIO)]
            case _:
                needs = self.characteristics
                return needs.duration_hours.confidence_level if needs is not None else "low"


def _model_gib(analysis: Analysis | None) -> float:
    """Return the GiB of trained weights (or adapters) that are downloaded at the end; 0 if unknown."""
    if analysis is None or analysis.parameters is None:
        return 0.0
    share = ADAPTER_SHARE if analysis.adapters is not None else 1.0
    size = 2 if analysis.half_weights is not None and analysis.half_weights.value else 4
    return analysis.parameters.value * share * size / 2**30
