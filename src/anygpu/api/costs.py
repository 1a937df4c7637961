"""API models for costs: sums by day, person, backend, GPU and tag, the current month, and provider comparisons."""

from typing import Any, Literal

from pydantic import Field

from anygpu.api.base import ApiModel, RequestModel
from anygpu.api.plans import ErrorSummary, EstimateRange

Grouping = Literal["day", "person", "backend", "gpu", "tag"]


class CostFigures(ApiModel):
    """Sums over attempts. Running attempts count until now."""

    microusd: int = Field(examples=[171_420_000])
    machine_s: float = Field(examples=[1_216_800.0], description="Time in which machines were used.")
    gpu_s: float = Field(examples=[1_216_800.0], description="The same times the GPUs of each machine.")
    jobs: int = Field(examples=[41], description="Jobs that used a machine, each counted once.")
    spot_microusd: int = Field(examples=[140_560_000], description="The part for interruptible machines.")
    saved_microusd: int = Field(
        examples=[214_600_000],
        description="What the interruptible machines would have cost more on demand, where that price is known.",
    )
    lost_microusd: int = Field(examples=[4_900_000], description="Cost of training that was lost.")
    lost_s: float = Field(examples=[22_260.0])
    interruptions: int = Field(
        examples=[23], description="How often a machine was taken away or lost during training."
    )


class CostGroup(CostFigures):
    """The sums of one day, person, backend, GPU kind or tag."""

    key: str = Field(
        examples=["aws"],
        description="A date, name or tag. Empty: no GPU, no tag, or not known (a job deleted long ago).",
    )
    daily_microusd: list[int] | None = Field(
        default=None, examples=[None], description="With `daily`: the cost on each of `days`."
    )


class CostRest(CostFigures):
    """The sums of all groups that are not listed. A job may count in several of them."""

    groups: int = Field(examples=[12])
    daily_microusd: list[int] | None = Field(default=None, examples=[None])


class CostTable(ApiModel):
    """Costs of the project in a range of days, grouped; the largest group first, days in order.

    A job with several tags counts for each of them: `overlap_microusd` is what the groups count more than once. So
    the groups, and the rest, minus the overlap are the total.
    """

    by: str = Field(examples=["backend"])
    first_day: str = Field(examples=["2026-11-01"])
    last_day: str = Field(examples=["2026-11-17"])
    timezone: str = Field(examples=["Europe/Berlin"])
    days: list[str] | None = Field(examples=[None], description="With `daily`: all days of the range.")
    groups: list[CostGroup]
    rest: CostRest | None = Field(examples=[None])
    total: CostFigures
    daily_microusd: list[int] | None = Field(
        default=None, examples=[None], description="With `daily`: the total of each of `days`."
    )
    overlap_microusd: int = Field(examples=[0])


class ExpectedDay(ApiModel):
    """The predicted cost of a day to come."""

    day: str = Field(examples=["2026-11-18"])
    microusd: int = Field(examples=[27_500_000])


class MonthEstimate(ApiModel):
    """The predicted cost of a whole month. In nine of ten cases it is between low and high."""

    microusd: int = Field(examples=[702_000_000])
    low_microusd: int = Field(examples=[640_000_000])
    high_microusd: int = Field(examples=[790_000_000])
    running_microusd: int = Field(
        examples=[12_000_000], description="What the running jobs still cost, as predicted."
    )
    history_days: int = Field(examples=[28], description="Days whose costs were averaged.")
    days: list[ExpectedDay]


class PredictionQuality(ApiModel):
    """How far predictions made before the jobs ran were from the results; null without such jobs."""

    jobs: int = Field(examples=[100])
    cost: ErrorSummary | None
    time: ErrorSummary | None


class CostSummary(ApiModel):
    """The costs of a month, and of today."""

    month: str = Field(examples=["2026-11"])
    timezone: str = Field(examples=["Europe/Berlin"])
    today: str = Field(examples=["2026-11-17"])
    first_month: str | None = Field(
        examples=["2026-03"], description="The month of the first costs; null without costs."
    )
    days_so_far: int = Field(examples=[17])
    today_microusd: int = Field(examples=[31_480_000])
    total: CostFigures = Field(description="The month so far.")
    on_demand_microusd: int = Field(
        examples=[626_660_000], description="What the month so far would have cost without spot machines."
    )
    projection: MonthEstimate | None = Field(description="Null for a month that is over.")
    predictions: PredictionQuality


class ComparisonRequest(RequestModel):
    """A job spec with the text of its code files, or a job of the project."""

    spec: Any = Field(default=None, examples=[{"script": "train.py", "args": ["--epochs", "3"]}])
    files: dict[str, str] | None = Field(
        default=None, max_length=200, examples=[{"train.py": "import torch\n…"}]
    )
    job: str | None = Field(default=None, max_length=200, examples=["last"])


class ComparedProvider(ApiModel):
    """What the whole job would cost with one provider, on its best machine of one kind."""

    provider: str = Field(examples=["aws"])
    machine: str = Field(examples=["g5.xlarge"])
    region: str = Field(examples=["eu-west-1"])
    gpu: str = Field(examples=["A10G"])
    gpus: int = Field(examples=[1])
    gpu_memory_gib: float = Field(examples=[24.0])
    interruptible: bool = Field(examples=[True])
    own: bool = Field(examples=[False], description="A machine of the organisation.")
    price_microusd_per_hour: int = Field(examples=[430_000], description="Price of one machine.")
    nodes: int = Field(default=1, examples=[1], description="How many such machines the workload uses.")
    total_price_microusd_per_hour: int = Field(
        default=0, examples=[430_000], description="Price of all nodes together."
    )
    total_microusd: EstimateRange = Field(
        examples=[{"expected": 4_230_000, "low": 3_600_000, "high": 9_600_000}]
    )
    seconds: EstimateRange
    confidence: str = Field(examples=["medium"])
    availability: str = Field(
        examples=["free"],
        description="`free`, `full`, `unknown`, `no_account` (no backend is configured), or `unsupported`.",
    )
    free: int | None = Field(examples=[4])
    available: str = Field(examples=["4 free"], description="The availability in words.")
    features: list[str] = Field(examples=[["spot", "billed by the second"]])
    verdict: str = Field(examples=["cheapest"], description="`cheapest`, `fastest`, `balanced` or empty.")
    recommended: bool = Field(examples=[True])


class ProviderComparison(ApiModel):
    """The workload at all providers, cheapest first. Interruptions are included in time and cost.

    Requirements of the job apply, but not the places that it names.
    """

    name: str = Field(examples=["resnet50"])
    basis: str = Field(examples=["history"], description="Where the predicted time comes from.")
    recommendation: str = Field(examples=["aws g5.xlarge: cheapest to finish"])
    providers: list[ComparedProvider]
    more: int = Field(examples=[0], description="Kinds of machines that are not listed.")
