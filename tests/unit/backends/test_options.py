"""What a person wrote about a backend becomes its options, or every problem at its place."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from anygpu.backends.options import credential_fields, describe_options, parse_options
from anygpu.errors import InvalidSpec


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str = Field("", pattern="^(https://.*)?$", description="URL of its API")
    regions: tuple[str, ...] = ()
    max_machines: int = Field(10, ge=0, description="machines at one time")
    ceiling: int | None = None
    unattended: bool = False
    hosts: list[dict[str, str]] = Field(default_factory=list)
    size: str = Field(description="size of its machines")
    api_key: SecretStr | None = Field(None, description="key of the API")


def problems(options: dict[str, Any], credentials: dict[str, Any] | None = None) -> str:
    with pytest.raises(InvalidSpec) as caught:
        parse_options(Options, options, credentials or {})
    return str(caught.value)


def test_strings_are_converted_to_the_type_of_the_option() -> None:
    said = {"regions": "a, b", "max_machines": "3", "ceiling": "5", "unattended": "yes", "size": "x"}
    given = parse_options(Options, {**said, "hosts": '[{"host": "box"}]'}, {"api_key": "k"})
    assert given.options.model_dump(exclude={"api_key"}) == {
        "endpoint": "",
        "regions": ("a", "b"),
        "max_machines": 3,
        "ceiling": 5,
        "unattended": True,
        "hosts": [{"host": "box"}],
        "size": "x",
    }


def test_only_given_options_are_stored_and_no_credential() -> None:
    given = parse_options(Options, {"size": "x", "regions": ["a"]}, {"api_key": "very-secret"})
    assert given.stored == {"size": "x", "regions": ["a"]}
    assert given.credentials == {"api_key": "very-secret"}
    assert isinstance(given.options, Options)
    assert given.options.api_key is not None
    assert given.options.api_key.get_secret_value() == "very-secret"
    assert parse_options(Options, given.stored, given.credentials).options == given.options


def test_a_wrong_option_names_the_nearest_valid_one() -> None:
    said = problems({"size": "x", "endpont": "y", "zzz": 1})
    assert "options.endpont: unknown option; did you mean 'endpoint'?" in said
    assert "options.zzz: unknown option; there are: endpoint, regions" in said


@pytest.mark.parametrize(
    ("options", "credentials", "said"),
    [
        ({}, {}, "options.size: is required; size of its machines"),
        ({"size": "x", "endpoint": "host"}, {}, "options.endpoint: is not valid; expected: URL of its API"),
        ({"size": "x", "max_machines": -1}, {}, "options.max_machines: input should be greater"),
        ({"size": "x", "max_machines": "many"}, {}, "options.max_machines: input should be a valid integer"),
        ({"size": "x", "hosts": "[{"}, {}, "options.hosts: input should be a valid list"),
        (
            {"size": "x", "api_key": "k"},
            {},
            "options.api_key: is a credential, not an option; give it with --credential api_key",
        ),
        (
            {"size": "x"},
            {"api_kee": "k"},
            "credentials.api_kee: is not a credential of this kind of backend; did you mean",
        ),
        ({"size": "x"}, {"size": "k"}, "credentials.size: is not a credential"),
        (
            {"size": "x"},
            {"api_key": ""},
            "credentials.api_key: is empty or not a string; give the credential as a string",
        ),
        (
            {"size": "x"},
            {"api_key": 5},
            "credentials.api_key: is empty or not a string; give the credential as a string",
        ),
    ],
)
def test_a_wrong_value_is_named_at_its_place(
    options: dict[str, Any], credentials: dict[str, Any], said: str
) -> None:
    assert said in problems(options, credentials)


def test_no_problem_repeats_a_credential() -> None:
    class Strict(Options):
        api_key: SecretStr = Field(SecretStr(""), min_length=20)

    with pytest.raises(InvalidSpec) as caught:
        parse_options(Strict, {"size": "x", "api_secret": "hush1"}, {"api_key": "hush2"})
    with pytest.raises(InvalidSpec) as later:
        parse_options(Strict, {"size": "x"}, {"api_key": "hush2"})
    for error in (caught.value, later.value):
        assert "hush" not in str(error)
        assert "hush" not in repr(error.details)
        assert error.__suppress_context__ or error.__context__ is None


def test_every_option_is_described() -> None:
    told = {each.pop("name"): each for each in describe_options(Options)}
    assert list(told) == list(Options.model_fields)
    assert told["max_machines"] == {
        "type": "a whole number",
        "default": 10,
        "required": False,
        "secret": False,
        "about": "machines at one time",
        "choices": [],
    }
    assert told["api_key"]["secret"]
    assert told["api_key"]["default"] is None
    assert told["size"]["required"]
    kinds = {name: each["type"] for name, each in told.items()}
    assert kinds["regions"] == "a list of strings"
    assert kinds["hosts"] == "a list"
    assert kinds["ceiling"] == "a whole number"
    assert kinds["unattended"] == "true or false"
    assert credential_fields(Options) == ["api_key"]


def test_the_values_of_a_choice_and_the_form_of_a_text_are_named() -> None:
    class Choices(BaseModel):
        relay: Literal["", "storage"] = ""
        site: str = Field("", pattern="^[a-z]*$", description="a name in lower case")

    relay, site = describe_options(Choices)
    assert (relay["type"], relay["choices"], site["choices"]) == ("a text", ["", "storage"], [])
    with pytest.raises(InvalidSpec, match="expected: a name in lower case"):
        parse_options(Choices, {"site": "Lab"}, {})
