"""The base class of the spec models, and field types with understandable error messages."""

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
from anygpu.spec.normalize import Finding


@dataclass(frozen=True, slots=True)
class AliasedValue:
    """A value given under an alias.

    The alias may have another unit: `max_cost` is in dollars, `max_cost_microusd` is not. Errors name the alias.
    """

    name: str
    value: Any


class FieldErrors(ValueError):
    """Several validation errors in one exception, each with the path of its field.

    Raised by checks that involve more than one field.
    """

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__("; ".join(message for _, _, message in findings))


class SpecModel(BaseModel):
    """Base class of the spec models.

    Models are frozen, refuse unknown keys and accept aliases; null means the default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    aliases: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _resolve_aliases(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = {key: value for key, value in data.items() if value is not None and key not in cls.aliases}
        for name in (name for name in cls.aliases if data.get(name) is not None):
            field = cls.field_for_alias(name, data[name])
            if field in fields:
                raise FieldErrors(
                    (
                        (name,),
                        data[name],
                        f"is another name of {_name_used(fields[field], field)!r}, which is "
                        "there too; leave out one of the two",
                    )
                )
            fields[field] = AliasedValue(name, data[name])
        return fields

    @classmethod
    def field_for_alias(cls, name: str, value: Any) -> str:
        """Return the field that the alias `name` refers to."""
        return cls.aliases[name]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        described = handler(schema)
        properties = handler.resolve_ref_schema(described).get("properties", {})
        for name, field in cls.aliases.items():
            properties.setdefault(
                name, {"description": f"`{field}`, with units", "type": ["string", "number"]}
            )
        return described


def _name_used(value: Any, field: str) -> str:
    return value.name if isinstance(value, AliasedValue) else field


@dataclass(frozen=True, slots=True)
class TextPattern:
    """Validates text with a regular expression. `message` completes the sentence 'the value ...'."""

    pattern: str
    limit: int
    message: str

    def __call__(self, value: str) -> str:
        if len(value) > self.limit:
            raise ValueError(f"is too long; use at most {self.limit} characters")
        if re.fullmatch(self.pattern, value) is None:
            raise ValueError(self.message)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$", "maxLength": self.limit}


def as_text(value: Any) -> Any:
    """Convert numbers and booleans to text, as in `name: 7` and `env: {DEBUG: true}`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def as_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is not a number; write a number such as 4")
    return value


def require_relative_path(value: str) -> str:
    """Return the path if it is relative and stays inside its directory, else raise ValueError.

    A path that is absolute on any operating system is refused.
    """
    parts = re.split(r"[/\\]", value)
    if not value.strip():
        raise ValueError("is empty; give a path relative to the working directory, or leave the field out")
    if parts[0] == "" or re.match(r"[A-Za-z]:", value):
        raise ValueError("is an absolute path; give it relative to the working directory")
    if ".." in parts:
        raise ValueError("leads outside the working directory; '..' is not allowed")
    return value


def path_fault(path: str) -> str:
    """Return why a path is not relative or leads outside its directory; an empty string if it is neither."""
    try:
        require_relative_path(path)
    except ValueError as error:
        return str(error)
    return ""


def parsed_by(parse: Callable[[Any], Any]) -> BeforeValidator:
    """Return a validator that converts a value with `parse`, whether it was given under the field name or its alias."""
    return BeforeValidator(lambda value: parse(value.value if isinstance(value, AliasedValue) else value))


def _parse_money(value: Any) -> Any:
    """Parse an amount: dollars if given under the alias, micro-dollars if given under the field name."""
    return units.microdollars(value.value) if isinstance(value, AliasedValue) else as_number(value)


_LINE = r"[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*"

TextInput = str | int | float | bool  # what `as_text` accepts, for the JSON Schema
Text = Annotated[str, BeforeValidator(as_text, json_schema_input_type=TextInput)]
Line = Annotated[
    Text,
    TextPattern(_LINE, 1000, "is not a line of text; it must not be blank or contain control characters"),
]
Word = Annotated[
    Text,
    TextPattern(
        r"[A-Za-z0-9][A-Za-z0-9._/:+-]*",
        200,
        "contains characters that are not allowed; use letters, digits, . _ - / :",
    ),
]
Tag = Annotated[
    Text, TextPattern(_LINE, 100, "is not a tag; it must not be blank or contain control characters")
]
RelativePath = Annotated[
    Text,
    TextPattern(r"[^\x00-\x1f\x7f]*", 1000, "contains control characters"),
    AfterValidator(require_relative_path),
]
Seconds = Annotated[float, parsed_by(units.seconds)]
Gibibytes = Annotated[float, parsed_by(units.gibibytes)]
Microdollars = Annotated[
    int, Field(ge=0, le=units.MAX_DOLLARS * units.MICROS_PER_DOLLAR), BeforeValidator(_parse_money)
]
OneOrMore = BeforeValidator(shorthand.as_list)
