"""Messages that a client sends over the WebSocket `/api/v1/live`."""

from typing import Annotated, Literal

from pydantic import Field

from anygpu.api.base import JOB_ID, RequestModel

StreamCursor = Annotated[int, Field(ge=0, le=2**53)]
FollowId = Annotated[str, Field(min_length=1, max_length=64)]


class FollowRequest(RequestModel):
    """Start to follow the project, or one job, after a cursor. An id that is in use is replaced."""

    op: Literal["follow"] = Field(examples=["follow"])
    id: FollowId = Field(examples=["j1"], description="Chosen by the client; every answer has it.")
    project: bool = Field(default=False, examples=[False])
    job: str | None = Field(default=None, min_length=1, max_length=200, examples=[JOB_ID])
    after: StreamCursor | Literal["now"] = Field(
        default=0, examples=[0], description='"now" starts a project after its newest event.'
    )
    max_replay: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        examples=[2000],
        description="If the cursor of a project is further behind, the follow starts at the newest event.",
    )
    attempt: StreamCursor = Field(default=0, examples=[0])
    log: StreamCursor = Field(default=0, examples=[0])
    point: StreamCursor = Field(default=0, examples=[0])
    node: int = Field(
        default=0,
        ge=0,
        le=1023,
        examples=[0],
        description="Machine whose log and telemetry are sent, of a job on several machines.",
    )
    include: list[Literal["events", "logs", "metrics", "progress"]] | None = Field(
        default=None, examples=[["events", "progress"]]
    )


class UnfollowRequest(RequestModel):
    """End a follow. An unknown id changes nothing."""

    op: Literal["unfollow"] = Field(examples=["unfollow"])
    id: FollowId = Field(examples=["j1"])
