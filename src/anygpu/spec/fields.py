"""What the models are made of: the common base, and field types whose errors speak to people."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from anygpu.spec import shorthand, units
from anygpu.spec.plain import Finding


@dataclass(frozen=True, slots=True)
class Friendly:
    """A value given under a friendly name; it is parsed by that name's rules and blamed under that name."""

    name: str
    value: Any


class Trouble(ValueError):
    """Several findings at once, each with its place: what one field alone cannot know."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__("; ".join(message for _, _, message in findings))


class Part(BaseModel):
    """A part of a spec: frozen, no unknown keys; friendly names taken; an empty value means the default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    friendly: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _take_friendly_names(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        taken = {key: value for key, value in data.items() if value is not None and key not in cls.friendly}
        for name in (name for name in cls.friendly if data.get(name) is not None):
            field = cls.field_of(name, data[name])
            if field in taken:
                raise Trouble(
                    ((name,), data[name], f"is given twice; leave out {_given_as(taken[field], field)!r}")
                )
            taken[field] = Friendly(name, data[name])
        return taken

    @classmethod
    def field_of(cls, name: str, value: Any) -> str:
        """The field a friendly name stands for."""
        return cls.friendly[name]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        described = handler(schema)
        properties = handler.resolve_ref_schema(described).get("properties", {})
        for name, field in cls.friendly.items():
            properties.setdefault(
                name, {"description": f"`{field}`, with units", "type": ["string", "number"]}
            )
        return described


def _given_as(value: Any, field: str) -> str:
    return value.name if isinstance(value, Friendly) else field


@dataclass(frozen=True, slots=True)
class Matches:
    """A text of a certain form; `said` completes the sentence 'the value ...' when it is not."""

    pattern: str
    limit: int
    said: str

    def __call__(self, value: str) -> str:
        if len(value) > self.limit:
            raise ValueError(f"is longer than {self.limit} characters")
        if re.fullmatch(self.pattern, value) is None:
            raise ValueError(self.said)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$", "maxLength": self.limit}


def as_text(value: Any) -> Any:
    """Numbers and truth values are accepted where a text is meant: `name: 7`, `env: {DEBUG: true}`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def as_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is not a number")
    return value


def inside(value: str) -> str:
    """A relative path that stays inside its directory, on every operating system."""
    parts = re.split(r"[/\\]", value)
    if not value.strip():
        raise ValueError("is empty")
    if parts[0] == "" or re.match(r"[A-Za-z]:", value):
        raise ValueError("is an absolute path; give it relative to the working directory")
    if ".." in parts:
        raise ValueError("leads outside the working directory; '..' is not allowed")
    return value


def parsed_by(parse: Callable[[Any], Any]) -> BeforeValidator:
    """The same parser for the friendly name and for the name with the unit."""
    return BeforeValidator(lambda value: parse(value.value if isinstance(value, Friendly) else value))


def _money(value: Any) -> Any:
    """Dollars under the friendly name, whole micro-dollars under the exact one."""
    return units.microdollars(value.value) if isinstance(value, Friendly) else as_number(value)


_LINE = r"[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*"

Text = Annotated[str, BeforeValidator(as_text)]
Line = Annotated[
    Text, Matches(_LINE, 1000, "is not a line of text; it must not be blank or hold control characters")
]
Word = Annotated[
    Text,
    Matches(
        r"[A-Za-z0-9][A-Za-z0-9._/:+-]*",
        200,
        "has characters that names do not have; use letters, digits, . _ - / :",
    ),
]
Tag = Annotated[Text, Matches(_LINE, 100, "is not a tag; it must not be blank or hold control characters")]
InsidePath = Annotated[
    Text, Matches(r"[^\x00-\x1f\x7f]*", 1000, "holds control characters"), AfterValidator(inside)
]
Seconds = Annotated[float, parsed_by(units.seconds)]
Gibibytes = Annotated[float, parsed_by(units.gibibytes)]
Microdollars = Annotated[
    int, Field(ge=0, le=units.MAX_DOLLARS * units.MICROS_PER_DOLLAR), BeforeValidator(_money)
]
Several = BeforeValidator(shorthand.several)
