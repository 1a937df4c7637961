"""Logs by line, and the search in a log."""

from pydantic import Field

from anygpu.api.base import TIME, ApiModel


class LogLineDetails(ApiModel):
    """A line of a log. Of a progress bar that uses carriage returns, `text` is the last state."""

    number: int = Field(examples=[1], description="The first line is 1.")
    offset: int = Field(examples=[0], description="Byte offset of the line in the log.")
    text: str = Field(
        examples=["epoch 1 loss 0.3"], description="With its control sequences, such as colours."
    )
    rest: int | None = Field(
        default=None,
        examples=[None],
        description="If the line is longer than 8 KiB: byte offset of the part that `text` does not have.",
    )
    at: str | None = Field(
        default=None,
        examples=[TIME],
        description="When the server received the line, to within 10 s; null if unknown.",
    )


class LogLines(ApiModel):
    """Lines of an attempt's log. To follow new output, open a stream at `total_bytes`."""

    attempt: int = Field(examples=[1])
    total_lines: int = Field(examples=[1], description="Including an unfinished last line.")
    total_bytes: int = Field(examples=[17])
    unfinished_from: int = Field(
        examples=[17],
        description="Byte offset at which an unfinished last line starts; `total_bytes` if there is none.",
    )
    complete: bool = Field(examples=[True], description="Whether the attempt has ended.")
    lines: list[LogLineDetails]


class LogHits(ApiModel):
    """Matching lines, in the direction of the search."""

    attempt: int = Field(examples=[1])
    hits: list[LogLineDetails]
    total: int = Field(
        examples=[1], description="Matching lines in the searched part; a lower bound if `truncated`."
    )
    truncated: bool = Field(examples=[False], description="Whether a part of the log was not searched.")
    next: int | None = Field(
        examples=[None],
        description="To get more hits, pass it as `after` (or `before`); null if there are no more.",
    )
