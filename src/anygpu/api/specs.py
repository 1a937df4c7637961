"""Trainers with their settings, a job spec as text, and the code files of a job."""

from typing import Any

from pydantic import Field

from anygpu.api.base import JOB_ID, ApiModel, RequestModel
from anygpu.api.plans import SPEC
from anygpu.api.reports import HASH

_SETTINGS = {
    "type": "object",
    "properties": {"epochs": {"type": "integer", "minimum": 1, "default": 100}},
    "required": [],
    "additionalProperties": False,
}


class TrainerDetails(ApiModel):
    """A trainer. `settings` is a JSON schema of its settings, which a spec has under `config`."""

    name: str = Field(examples=["tabular"])
    title: str = Field(examples=["Tables"])
    description: str = Field(examples=["Predicts a column of a table."])
    built_in: bool = Field(
        examples=[True],
        description="False: a trainer of an installed package. Its settings are checked when the job runs.",
    )
    tasks: list[str] = Field(examples=[["classification", "regression"]])
    dataset: str = Field(
        examples=["a CSV or Parquet file"], description="The data it needs; empty: none, or unknown."
    )
    licence: str = Field(examples=["BSD-3-Clause"], description="Licence of the framework; empty: unknown.")
    licence_note: str = Field(examples=[""], description="What the licence means for a trained model.")
    extra: str = Field(examples=["tabular"], description="The extra of anygpu that installs its packages.")
    installed: bool = Field(examples=[True], description="Whether its packages are installed on the server.")
    install: str = Field(
        examples=[""], description="Command that installs its packages on the server; empty if installed."
    )
    settings: dict[str, Any] = Field(examples=[_SETTINGS])


class TrainerList(ApiModel):
    """Trainers that jobs can use by name."""

    trainers: list[TrainerDetails]


class RenderRequest(RequestModel):
    """A job spec to render as text."""

    spec: Any = Field(examples=[SPEC])


class SpecTexts(ApiModel):
    """Texts that submit the same job spec."""

    cli: str = Field(examples=["anygpu run --name digits --tag demo train.py --epochs 3"])
    yaml: str = Field(examples=["script: train.py\nname: digits\n"])
    python: str = Field(examples=["from anygpu import Platform\n"])


class CodeText(ApiModel):
    """A file of a job's working directory. `text` is null for a binary, large or linked file."""

    path: str = Field(examples=["train.py"])
    size: int = Field(examples=[1804])
    sha256: str | None = Field(examples=[HASH])
    executable: bool = Field(examples=[False])
    link: str | None = Field(examples=[None], description="Target of a symbolic link.")
    text: str | None = Field(examples=["import anygpu\n"])


class JobCode(ApiModel):
    """The code of a job as it was uploaded.

    `stored` is false for a job that runs in place or whose files were removed. `manifest` identifies the
    snapshot of the files; it is null for an archive, of which only code files are listed.
    """

    id: str = Field(examples=[JOB_ID])
    stored: bool = Field(examples=[True])
    manifest: str | None = Field(examples=[HASH])
    directory: str | None = Field(examples=[None], description="The directory of a job that runs in place.")
    files: list[CodeText]
    more_files: int = Field(examples=[0], description="Files that are not listed.")
