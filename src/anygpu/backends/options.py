"""Parse the options and credentials of a backend.

An error lists all problems at once, and never contains the value of a credential.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from anygpu.errors import InvalidSpec, Problem
from anygpu.suggest import did_you_mean

Json = dict[str, Any]
Interconnect = Literal["", "ethernet", "efa", "infiniband", "nvlink"]
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def interconnect_field() -> Any:
    """Return the option that says how the machines of a backend are connected."""
    return Field(
        "",
        description="network between the machines, for plans of jobs with several nodes: ethernet, infiniband, efa or"
        " nvlink; empty: unknown",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedOptions:
    """Validated options, and the form in which they are stored.

    `stored` has the options that were given, without the credentials.
    """

    options: BaseModel
    stored: Json
    credentials: dict[str, str]


def parse_options(
    model: type[BaseModel],
    options: Mapping[str, Any],
    credentials: Mapping[str, str],
    *,
    source: str = "body",
    place: str = "options",
) -> ParsedOptions:
    """Validate options and credentials against the options class `model` of a backend kind.

    Strings are converted to the type of the option, because the command line gives only strings.
    """
    wrong = [
        *_option_problems(model, options, place, source),
        *_credential_problems(model, credentials, source),
    ]
    if wrong:
        raise InvalidSpec(wrong)
    values = {name: _from_text(model.model_fields[name], value) for name, value in options.items()}
    try:
        valid = model.model_validate({**values, **credentials})
    except ValidationError as error:
        raise InvalidSpec([*_validation_problems(model, error, place, source)]) from None
    plain = valid.model_dump(mode="json", exclude_unset=True, exclude={*credentials})
    return ParsedOptions(options=valid, stored=plain, credentials=dict(credentials))


def credential_fields(model: type[BaseModel]) -> list[str]:
    """Return the names of the model's fields that are credentials."""
    return [name for name, info in model.model_fields.items() if _is_secret(info)]


def configured_credentials(options: BaseModel) -> list[str]:
    """Return the names of the credentials that are set and not empty."""
    chosen = {name: getattr(options, name) for name in credential_fields(type(options))}
    return [name for name, value in chosen.items() if value is not None and value.get_secret_value()]


def describe_options(model: type[BaseModel]) -> list[Json]:
    """Return a description of every option, for documentation and forms."""
    return [
        {
            "name": name,
            "type": _type_name(info.annotation),
            "default": _default(info),
            "required": info.is_required(),
            "secret": _is_secret(info),
            "about": info.description or "",
            "choices": _choices(info.annotation),
        }
        for name, info in model.model_fields.items()
    ]


def _option_problems(
    model: type[BaseModel], given: Mapping[str, Any], place: str, source: str
) -> Iterator[Problem]:
    names = list(model.model_fields)
    for name in given:
        if name not in model.model_fields:
            near = did_you_mean(name, names) or f"there are: {', '.join(names)}"
            yield Problem(f"{place}.{name}", None, "unknown option", near, source)
        elif _is_secret(model.model_fields[name]):
            yield Problem(
                f"{place}.{name}",
                None,
                "is a credential, not an option",
                f"give it with --credential {name}",
                source,
            )


def _credential_problems(model: type[BaseModel], given: Mapping[str, Any], source: str) -> Iterator[Problem]:
    secret = credential_fields(model)
    for name, value in given.items():
        if name not in secret:
            near = did_you_mean(name, secret) or f"there are: {', '.join(secret) or 'none'}"
            yield Problem(
                f"credentials.{name}", None, "is not a credential of this kind of backend", near, source
            )
        elif not isinstance(value, str) or not value:
            yield Problem(
                f"credentials.{name}",
                None,
                "is empty or not a string; give the credential as a string",
                "",
                source,
            )


def _from_text(info: FieldInfo, value: Any) -> Any:
    if not isinstance(value, str) or not _is_list(info.annotation):
        return value
    if value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _validation_problems(
    model: type[BaseModel], error: ValidationError, place: str, source: str
) -> Iterator[Problem]:
    for raw in error.errors(include_url=False):
        name = str(raw["loc"][0]) if raw["loc"] else ""
        secret = name in model.model_fields and _is_secret(model.model_fields[name])
        where = ".".join(["credentials" if secret else place, *map(str, raw["loc"])])
        message, suggestion = _explain(raw["type"], raw["msg"], model.model_fields.get(name))
        value = None if secret or raw["type"] == "missing" or not raw["loc"] else raw["input"]
        yield Problem(where, _shorten(value), message, suggestion, source)


def _explain(kind: str, text: str, field: FieldInfo | None) -> tuple[str, str]:
    """Return the message for an error of pydantic, and what the option is if the message does not say it."""
    about = (field and field.description) or ""
    if kind == "missing":
        return "is required", about
    if kind == "string_pattern_mismatch" and about:
        return "is not valid", f"expected: {about}"
    return _message(text), ""


def _message(text: str) -> str:
    """Return pydantic's message for the middle of a sentence, without the prefix that pydantic adds to our messages."""
    own = text.removeprefix("Value error, ")
    return own if own != text else text[:1].lower() + text[1:]


def _shorten(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:100]


def _is_secret(info: FieldInfo) -> bool:
    return SecretStr in _union_members(info.annotation)


def _is_list(annotation: Any) -> bool:
    return any(part in (tuple, list, dict) for part in _union_members(annotation))


def _union_members(annotation: Any) -> Iterator[Any]:
    """Yield the annotation itself and, recursively, the members of its unions."""
    origin = get_origin(annotation)
    yield origin if origin in (tuple, list, dict) else annotation
    if origin not in (tuple, list, dict):
        for inner in get_args(annotation):
            yield from _union_members(inner)


def _type_name(annotation: Any) -> str:
    parts = [*_union_members(annotation)]
    if SecretStr in parts:
        return "a credential"
    if _is_list(annotation):
        inner = next((arg for arg in get_args(annotation) if arg is not Ellipsis), str)
        return "a list of strings" if inner is str else "a list"
    if _choices(annotation):
        return "a text"
    return next((_TYPE_NAMES[part] for part in parts if part in _TYPE_NAMES), "a value")


def _choices(annotation: Any) -> list[str]:
    """Return the values of an option that accepts only some; an empty list for other options."""
    return [str(value) for value in get_args(annotation)] if get_origin(annotation) is Literal else []


def _default(info: FieldInfo) -> Any:
    value = info.get_default(call_default_factory=True) if not info.is_required() else None
    if value is PydanticUndefined or isinstance(value, SecretStr):
        return None
    return list(value) if isinstance(value, tuple) else value
