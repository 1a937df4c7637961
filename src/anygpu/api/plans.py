"""API models for plans (the compared offers for a job) and for the accuracy of predictions."""

from typing import Any

from pydantic import Field

from anygpu.api.base import JOB_ID, TIME, ApiModel, RequestModel
from anygpu.api.jobs import BetterOffer, JobPrediction

SPEC = {"script": "train.py", "args": ["--epochs", "3"], "name": "digits", "tags": ["demo"]}

_ERRORS = {"jobs": 12, "median_error": 0.08, "p90_error": 0.21, "held": 11, "median_width": 1.6}


class PlanRequest(RequestModel):
    """A job spec and the text of its code files by path. The code is analysed, not stored."""

    spec: Any = Field(examples=[SPEC])
    files: dict[str, str] | None = Field(
        default=None, max_length=200, examples=[{"train.py": "import torch\n…"}]
    )


class NativePlanRequest(PlanRequest):
    """A job spec with its code, and the offer whose request is shown. Without an offer it is the best one."""

    backend: str = Field(default="", max_length=200, examples=["lab"])
    offer: str = Field(
        default="", max_length=300, examples=["8xA100-64cpu"], description="Name of the offer."
    )
    region: str = Field(default="", max_length=200, examples=[""])


class OfferIdentity(ApiModel):
    """The backend, region and machine type of an offer."""

    backend: str = Field(examples=["cloud"])
    name: str = Field(examples=["gpu_1x_rtx4090"])
    region: str = Field(examples=["eu-north"])
    zone: str = Field(examples=[""])
    gpu: str = Field(examples=["RTX4090"])
    gpus: int = Field(examples=[1])
    interruptible: bool = Field(examples=[False])


class NativeRequestText(ApiModel):
    """One request that a backend sends to start a job, without credentials and tickets."""

    title: str = Field(examples=["POST http://head:8265/api/jobs/"])
    language: str = Field(examples=["json"], description="json, yaml or sh.")
    text: str = Field(examples=['{"submission_id": "anygpu-…-1"}'])


class NativePlan(ApiModel):
    """The requests that would start a job on an offer, in the order in which they are sent."""

    offer: OfferIdentity
    requests: list[NativeRequestText]


class EstimateRange(ApiModel):
    """An expected value with the low and the high end of its interval."""

    expected: float = Field(examples=[8040.0])
    low: float = Field(examples=[5200.0])
    high: float = Field(examples=[12_100.0])


class PlannedOffer(OfferIdentity):
    """An offer with its estimated time and cost."""

    configured: bool = Field(examples=[True])
    needs_consent: bool = Field(
        examples=[False], description="The offer costs money, which the job does not allow yet."
    )
    has_backend: bool = Field(
        default=True, examples=[True], description="False: anygpu cannot rent machines of this cloud."
    )
    price_date: str = Field(
        default="", examples=[""], description="Date of a price that is not recent; empty if it is recent."
    )
    doubt: str = Field(
        default="",
        examples=[""],
        description="A problem that the offer may have, which does not reject it.",
    )
    score: float = Field(examples=[1_340_000.0])
    price_microusd_per_hour: int = Field(examples=[600_000], description="Price of one machine.")
    nodes: int = Field(default=1, examples=[1], description="How many such machines the job uses.")
    total_price_microusd_per_hour: int | None = Field(
        default=None,
        examples=[600_000],
        description="Price of all nodes together; null in plans that an older server stored.",
    )
    interconnect: str = Field(
        default="",
        examples=["efa (400 Gbit/s)"],
        description="Network between the nodes; empty for one node.",
    )
    nodes_reason: str = Field(
        default="", examples=[""], description="Why fewer nodes would be better for the job."
    )
    seconds: EstimateRange
    cost_microusd: EstimateRange = Field(
        examples=[{"expected": 1_340_000, "low": 870_000, "high": 2_020_000}]
    )
    out_of_pocket_microusd: EstimateRange = Field(examples=[{"expected": 0, "low": 0, "high": 20_000}])
    credit_microusd: int = Field(examples=[2_000_000])
    runs: float = Field(examples=[1])
    max_run_s: float | None = Field(examples=[None])
    setup_s: int = Field(examples=[150])
    transfer_s: int = Field(examples=[0])
    interruptions_s: int = Field(examples=[0])
    checkpoint_every_s: int | None = Field(examples=[None])
    confidence: str = Field(examples=["medium"])
    basis: str = Field(examples=["history"])
    free: int | None = Field(examples=[None])
    wait: str = Field(examples=[""])
    pros: list[str] = Field(examples=[["never interrupted"]])
    cons: list[str] = Field(examples=[[]])


class OfferRejection(ApiModel):
    """Why some offers were excluded, with examples."""

    reason: str = Field(examples=["has 16 GiB a GPU, the job needs 24"])
    offers: int = Field(examples=[41])
    examples: list[OfferIdentity]


class ComparedBackend(ApiModel):
    """The number of offers of a backend, or of a cloud without a backend, that a plan compared."""

    backend: str = Field(examples=["cloud"])
    offers: int = Field(examples=[41])
    configured: bool = Field(examples=[True])


class WorkloadFact(ApiModel):
    """One value that was found in the job's code, such as the batch size, and where."""

    what: str = Field(examples=["model"])
    value: str = Field(examples=["resnet50"])
    sure: str = Field(examples=["high"])
    where: str = Field(examples=["train.py:14"])
    because: str = Field(examples=[""])
    file: str = Field(default="", examples=["train.py"])
    line: int = Field(default=0, examples=[14], description="0: no line.")


class CodeEditDetails(ApiModel):
    """A change of one line: `new` replaces `old`, and may have several lines."""

    file: str = Field(examples=["train.py"])
    line: int = Field(examples=[14])
    old: str = Field(examples=["loader = DataLoader(data)"])
    new: str = Field(examples=["loader = DataLoader(data, num_workers=4)"])


class CodeFixDetails(ApiModel):
    """Changes of the code that resolve a finding, to apply together."""

    title: str = Field(examples=["Add num_workers=4"])
    edits: list[CodeEditDetails]


class CodeLint(ApiModel):
    """A warning about the job's code: it costs money or may lose work. Says how to fix it."""

    code: str = Field(examples=["no_checkpoint"])
    says: str = Field(examples=["nothing is saved before the end"])
    do: str = Field(examples=["save a checkpoint each epoch"])
    file: str = Field(examples=["train.py"])
    line: int = Field(examples=[14])
    severity: str = Field(default="costs", examples=["costs"], description="costs, risks or hint.")
    column: int = Field(
        default=0, examples=[8], description="In characters from 0; 0 with end_column 0: unknown."
    )
    end_column: int = Field(default=0, examples=[18])
    fix: CodeFixDetails | None = Field(default=None, examples=[None])


class JobPlan(ApiModel):
    """Offers for a job, best first. `short` has one offer for each kind of machine."""

    strategy: str = Field(examples=["cheapest"])
    choice: PlannedOffer | None
    short: list[PlannedOffer]
    offers: list[PlannedOffer]
    more_offers: int = Field(examples=[0])
    rejected: list[OfferRejection]
    outside: list[PlannedOffer] = Field(
        default_factory=list,
        examples=[[]],
        description="Offers that only the budget or the deadline excludes, one for each kind of machine.",
    )
    compared: list[ComparedBackend] = Field(
        default_factory=list,
        examples=[[{"backend": "cloud", "offers": 41, "configured": True}]],
        description="Where the compared offers come from.",
    )
    unknown: list[str] = Field(
        default_factory=list,
        examples=[[]],
        description="Messages about regions, zones and machine types of the spec that no offer has.",
    )
    workload: list[WorkloadFact]
    lints: list[CodeLint] = Field(examples=[[]])


class ActualResult(ApiModel):
    """Time and cost of a completed job."""

    seconds: float = Field(examples=[7911.4])
    cost_microusd: int = Field(examples=[1_320_000])


class JobPlanDetails(ApiModel):
    """The stored plan of a job, its first and newest prediction, and the result."""

    id: str = Field(examples=[JOB_ID])
    plan: JobPlan | None
    predicted: JobPrediction | None
    newest: JobPrediction | None
    better: BetterOffer | None
    actual: ActualResult | None


class ErrorSummary(ApiModel):
    """Summary of how far predictions were from the actual values. Errors are fractions of the actual value.

    `held` is the number of predicted intervals that contained the actual value.
    """

    jobs: int = Field(examples=[12])
    median_error: float = Field(examples=[0.08])
    p90_error: float = Field(examples=[0.21])
    held: int = Field(examples=[11])
    median_width: float = Field(
        examples=[1.6], description="High end of the interval divided by its low end."
    )


class BasisAccuracy(ApiModel):
    """The accuracy of the predictions that come from the same source (`basis`), such as past runs or the job's code."""

    jobs: int = Field(examples=[12])
    time: ErrorSummary | None
    cost: ErrorSummary | None = Field(examples=[None])


class StageAccuracy(BasisAccuracy):
    """Accuracy of the predictions made at one stage of a job: before it ran, or after its first steps."""

    by_basis: dict[str, BasisAccuracy] = Field(
        examples=[{"history": {"jobs": 12, "time": _ERRORS, "cost": None}}]
    )


class JudgedJob(ApiModel):
    """A completed job with its predictions and its result."""

    id: str = Field(examples=[JOB_ID])
    name: str = Field(examples=["digits"])
    backend: str = Field(examples=["local"])
    ended_at: str = Field(examples=[TIME])
    predicted: JobPrediction | None = Field(description="Made before the job ran.")
    calibrated: JobPrediction | None = Field(examples=[None], description="Made after its first steps.")
    actual: ActualResult


class JudgedJobList(ApiModel):
    """Predicted and completed jobs of the project, newest first."""

    jobs: list[JudgedJob]


class AccuracyReport(ApiModel):
    """Accuracy of the predictions for recently completed jobs.

    `jobs` is the number of jobs included: the newest ones, at most `most`. `target` is the desired fraction of
    intervals that contain the actual value.
    """

    jobs: int = Field(examples=[12])
    most: int = Field(examples=[1000])
    target: float = Field(examples=[0.9])
    before: StageAccuracy = Field(description="Predictions made before the job ran.")
    first_steps: StageAccuracy = Field(description="Predictions made after the first steps.")
