"""What is asked of one place at a time: how long, what it costs, whether it will do, and how sure that is."""

from collections.abc import Callable
from dataclasses import dataclass, field

from anygpu.events.facts import MICROUSD, Offer
from anygpu.plan import gpus
from anygpu.plan.analyse.findings import SURE, Analysis, WorkloadCharacteristics
from anygpu.plan.bill import Bill, Circuit, Run, Span, Stretch, bill, egress_microusd, stretch
from anygpu.plan.places import Place, where
from anygpu.plan.route import cramped, elsewhere, shows_resume_path, unsuited
from anygpu.plan.wheels import misfit
from anygpu.plan.words import spoken
from anygpu.plan.work import ADAPTED
from anygpu.spec.model import JobSpec

WITHOUT_GPU = 20.0  # times as long as on the reference
GIB = 1.073741824  # decimal gigabytes
UNKNOWN = Span(expected=2 * 3600.0, low=720.0, high=72_000.0)  # nothing says how long: wide enough to be true
INSTALL_S, READY_S = 60.0, 0.5  # from a machine that answers to the first step
SURENESS = ("low", "medium", "high")
NARROW, WIDE = 2.0, 5.0  # the high end over the low end of what history says

# What is known of the time on an offer beside the code; the same where size, name, region and price alone differ.
Duration = Callable[[Offer], Span | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Uninterrupted training, and what says so: the job itself, history, its code, or nothing."""

    training_s: Span
    basis: str  # said | history | code | nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A job, what was read of its code, and what else is known. `deadline_s`: from now."""

    spec: JobSpec
    read: Analysis | None = None
    deadline_s: float | None = None
    duration: Duration | None = None
    # What was asked once for each sort of GPU.
    _gpus: dict[tuple[str, int, float, str, bool], str] = field(
        default_factory=dict, repr=False, compare=False
    )
    _by_code: dict[tuple[str, float, int], Prediction] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def needs(self) -> WorkloadCharacteristics | None:
        return self.read.characteristics if self.read is not None else None

    def predicted(self, offer: Offer) -> Prediction:
        """What the job says of itself wins over history, and history over the code."""
        said = self.spec.placement.expected_duration_s
        if said:
            return Prediction(training_s=Span(expected=said, low=0.8 * said, high=1.25 * said), basis="said")
        remembered = self.duration(offer) if self.duration is not None else None
        if remembered is not None:
            return Prediction(training_s=remembered, basis="history")
        machine = offer.gpu_kind, offer.gpu_memory_gib, offer.gpu_count
        if machine not in self._by_code:
            self._by_code[machine] = self._by_the_code(*machine)
        return self._by_code[machine]

    def bill(self, place: Place, training_s: Span) -> Bill:
        return bill(place.offer, *self._run(place, training_s))

    def taken(self, place: Place, training_s: Span) -> tuple[Stretch, int]:
        """Of the bill what decides the order of places: how long, in how many runs, the price of what leaves."""
        run, circuit = self._run(place, training_s)
        return stretch(place.offer, run, circuit, training_s.expected), egress_microusd(run, circuit)

    def _run(self, place: Place, training_s: Span) -> tuple[Run, Circuit]:
        needs = self.needs
        data_gib = needs.dataset_size_gb.value / GIB if needs is not None else 0.0
        circuit = Circuit(boot_s=place.boot_s, egress_microusd_per_gib=place.egress_microusd_per_gib)
        run = Run(
            training_s=training_s,
            upload_gib=data_gib,
            download_gib=_model_gib(self.read),
            setup_s=self._setup_s(place),
            resumes=self.resumes,
        )
        return run, circuit

    @property
    def resumes(self) -> bool:
        """Whether anything shows that the job goes on where another run of it stopped."""
        shown = self.needs is not None and self.needs.interruptible.value
        return shown or shows_resume_path(self.spec)

    def _setup_s(self, place: Place) -> float:
        """A machine of one's own has what a job without requirements needs."""
        spec = self.spec
        given = spec.requirements or spec.setup or spec.image
        return READY_S if place.own and not place.offer.paid and not given else INSTALL_S

    def unsuited(self, place: Place) -> str:
        """Why no place of its family will do, whatever its size and wherever it stands."""
        resumes = self.needs is not None and self.needs.interruptible.value
        if why_not := unsuited(self.spec, place.offer, resumable=resumes):
            return why_not
        if self.spec.placement.dedicated and not place.dedicated:
            return "is shared with others, and the job wants a machine of its own"
        return self.unable(place.offer)

    def unable(self, offer: Offer) -> str:
        """Why what the job is read to need and to install does not run on its GPU; empty when it does."""
        gpu = offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.driver, offer.paid
        if gpu not in self._gpus:
            self._gpus[gpu] = self._lacks_gpu(offer) or self.misfit(offer) or _too_small(self.needs, offer)
        return self._gpus[gpu]

    def _lacks_gpu(self, offer: Offer) -> str:
        needs = self.read.needs_gpu if self.read is not None else None
        if offer.gpu_count or needs is None or not needs.value or needs.confidence < SURE:
            return ""
        return f"has no GPU, and the code needs one: {needs.place} {needs.because}"

    def misfit(self, offer: Offer) -> str:
        """Why its GPU or driver does not run the torch the job installs, which is no prediction but a fact.

        A trainer's framework is installed where the job does not say what there is; on a machine of one's own it may be
        there already.
        """
        spec, installs = self.spec, self.spec.requirements
        framework = spec.trainer and offer.paid and not (installs or spec.python or spec.image)
        if framework or isinstance(installs, str):
            installs = self.read.requirements if self.read is not None else ()
        if not installs or not offer.gpu_count:
            return ""
        gpu = gpus.spec(offer.gpu_kind, memory_gib=offer.gpu_memory_gib) if offer.gpu_kind else None
        return misfit(installs, gpu, offer.driver)

    def why_not(self, place: Place, found: Bill) -> str:
        """Why it is not to be chosen, by what it is or by the limits of the job; empty when it may be."""
        limit = self.spec.limits.max_cost_microusd
        dear = limit is not None and found.cost_microusd.expected > limit
        return (
            self.unsuited(place)
            or self.cut_off(place, found.wall_s.expected, found.runs)
            or self.late(found.wall_s.expected)
            or cramped(self.spec.resources, place.offer)
            or elsewhere(self.spec, where(place.offer))
            or (self.too_dear if dear else "")
        )

    def cut_off(self, place: Place, wall_s: float, runs: int) -> str:
        """Why the longest run that is allowed there is too short; not by a doubtful prediction, nor of code unseen."""
        longest_s = place.offer.longest_s
        if (
            wall_s <= longest_s
            or runs > 1
            or self.needs is None
            or self._sureness(self.predicted(place.offer)) == "low"
        ):
            return ""
        return (
            f"lets a run last {spoken(longest_s)} at most, and nothing shows that the job can resume;"
            " give checkpoint.paths"
        )

    def late(self, wall_s: float) -> str:
        if self.deadline_s is None or wall_s <= self.deadline_s:
            return ""
        return f"would take longer than the {self.deadline_s / 3600:.1f} h until the deadline"

    @property
    def too_dear(self) -> str:
        return (
            f"would cost more than the ${(self.spec.limits.max_cost_microusd or 0) / MICROUSD:,.2f} allowed"
        )

    def confidence(self, place: Place, prediction: Prediction) -> str:
        found = self._sureness(prediction)
        return "medium" if found == "high" and place.stale_days else found

    def leaves_idle(self, offer: Offer) -> bool:
        """Whether the code would use only one of its GPUs."""
        return self.read is not None and self.read.multi_gpu is None and offer.gpu_count > 1

    def _by_the_code(self, kind: str, memory_gib: float, count: int) -> Prediction:
        """A machine whose GPU nobody knows counts as the reference."""
        read, effort = self.read, self.needs.effort if self.needs is not None else None
        if read is None or effort is None:
            return Prediction(training_s=UNKNOWN, basis="nothing")
        on_gpu = read.needs_gpu is None or read.needs_gpu.value
        here = gpus.spec(kind, memory_gib=memory_gib) if kind and on_gpu else None
        if here is None:
            slower = WITHOUT_GPU if on_gpu and not count else 1.0
            return Prediction(training_s=effort.anywhere(slower=slower), basis="code")
        used = max(1, count) if read.multi_gpu is not None else 1
        return Prediction(training_s=effort.on(here, gpus=used), basis="code")

    def _sureness(self, prediction: Prediction) -> str:
        match prediction.basis:
            case "said":
                return "high"
            case "history":
                times = prediction.training_s.high / max(1.0, prediction.training_s.low)
                return SURENESS[(times <= WIDE) + (times <= NARROW)]
            case _:
                return self.needs.duration_hours.sureness if self.needs is not None else "low"


def _model_gib(read: Analysis | None) -> float:
    """What leaves the machine at the end, where the size of the model is known: its weights, or only its adapters."""
    if read is None or read.parameters is None:
        return 0.0
    share = ADAPTED if read.adapters is not None else 1.0
    size = 2 if read.half_weights is not None and read.half_weights.value else 4
    return read.parameters.value * share * size / 2**30


def _too_small(needs: WorkloadCharacteristics | None, offer: Offer) -> str:
    """By what the code is predicted to need, beside what the job asks for."""
    needed_gb = needs.gpu_memory_gb.value if needs is not None else 0.0
    has_gb = offer.gpu_memory_gib * GIB
    if not needed_gb or not offer.gpu_count or not has_gb or needed_gb <= has_gb:
        return ""
    return f"holds {has_gb:.0f} GB a GPU; training is predicted to need {needed_gb:.0f} GB"
