"""Whatever is thrown at it: a JobSpec or an InvalidSpec, never anything else; and a spec round-trips."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.errors import InvalidSpec
from anygpu.spec import JobSpec, from_mapping, from_toml, from_yaml
from anygpu.spec.compat import Translation, translate
from anygpu.spec.documents import parse_scalar
from anygpu.spec.flags import from_flags, merge
from anygpu.spec.load import keys_at

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["6h", "16GiB", "$10", "A100:8", "auto", "yes", "cheapest", "a@1", "../x", "\0", "\ud800", "s3://b/k"]
    ),
)
SECTIONS = [
    "",
    "resources",
    "resources.gpu",
    "limits",
    "placement",
    "checkpoint",
    "track",
    "workdir",
    "dataset",
    "notify",
]
KEYS = sorted({key for section in SECTIONS for key in keys_at(tuple(section.split(".")) if section else ())})
ANYTHING = st.recursive(
    st.one_of(SCALARS, st.binary(max_size=5), st.just(object())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(KEYS), st.text(max_size=8), st.integers()), inner, max_size=5
        ),
    ),
    max_leaves=25,
)


def tried(call: Callable[..., Any], *args: Any) -> Any:
    """What the call gives, or the InvalidSpec it raises; anything else it raises fails the test."""
    try:
        return call(*args)
    except InvalidSpec as error:
        return error


def is_sound(result: Any) -> bool:
    """An error names its problems and can be sent as JSON; a spec equals what its own JSON loads to."""
    if isinstance(result, InvalidSpec):
        return bool(result.problems and str(result) and json.dumps(result.details))
    return isinstance(result, JobSpec) and from_mapping(result.model_dump(mode="json")) == result


@settings(max_examples=200, deadline=None)
@given(ANYTHING)
def test_any_value_is_a_spec_or_an_invalid_spec(data: Any) -> None:
    assert is_sound(tried(from_mapping, data))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=6))
def test_any_value_under_any_valid_key_is_a_spec_or_an_invalid_spec(extra: dict[str, Any]) -> None:
    assert is_sound(tried(from_mapping, {"script": "a.py", **extra}))


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["model_name", "config", "requirements", "preferences", *KEYS]), ANYTHING, max_size=5
    )
)
def test_any_request_body_is_translated_or_an_invalid_spec(body: dict[str, Any]) -> None:
    done = tried(translate, body)
    assert is_sound(tried(from_mapping, done.mapping) if isinstance(done, Translation) else done)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.text(alphabet="{}[]:,-&*!|>'\"#%@ \n\tab1~?", max_size=80)))
def test_any_text_is_a_spec_or_an_invalid_spec(text: str) -> None:
    for read in (from_yaml, from_toml):
        assert is_sound(tried(read, text))


WORDS = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63) + 1, 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        WORDS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=10,
)
SPECS = st.fixed_dictionaries(
    {"trainer": WORDS},
    optional={
        "config": st.dictionaries(WORDS, JSON, max_size=4),
        "tags": st.lists(WORDS, max_size=5),
        "env": st.dictionaries(WORDS, st.one_of(WORDS, st.integers(0, 9)), max_size=4),
        "secrets": st.one_of(st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=3)),
        "dataset": st.sampled_from(["data/x", "https://example.org/a", "name@1", {"name": "x"}]),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "gpu": st.sampled_from([1, "2", "A100", "A100:8", {"memory": "24GB"}]),
                "cpus": st.floats(0.1, 4096),
                "memory": st.one_of(st.floats(1e-3, 1e6), st.sampled_from(["16GB", "16GiB"])),
            },
        ),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "timeout": st.one_of(st.floats(1e-3, 3e8), st.sampled_from(["6h", "1h30m"])),
                "max_cost": st.decimals(0, 10**6, places=6).map(str),
                "deadline": st.one_of(
                    st.sampled_from(["6h"]),
                    st.datetimes(datetime(2000, 1, 2), datetime(9000, 1, 1)).map(
                        lambda at: f"{at.isoformat()}+02:00"
                    ),
                ),
            },
        ),
        "placement": st.fixed_dictionaries(
            {},
            optional={
                "hold_on_failure": st.sampled_from([True, False, "1h"]),
                "interruptible": st.booleans(),
            },
        ),
    },
)


@settings(max_examples=150, deadline=None)
@given(SPECS)
def test_every_spec_equals_what_its_json_loads_to(data: dict[str, Any]) -> None:
    spec = from_mapping(data)
    assert from_mapping(json.loads(json.dumps(spec.model_dump(mode="json")))) == spec
    assert from_mapping(spec.model_dump()) == spec


@given(
    ANYTHING.filter(lambda value: isinstance(value, dict)),
    st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=4),
)
def test_merging_keeps_the_values_of_the_flags(base: dict[str, Any], over: dict[str, Any]) -> None:
    merged = merge({key: value for key, value in base.items() if isinstance(key, str)}, over)
    assert all(merged[key] is value for key, value in over.items())


@given(st.text(max_size=30))
def test_any_setting_is_read_or_refused(text: str) -> None:
    found = tried(from_flags, {}, [text])
    assert is_sound(found) if isinstance(found, InvalidSpec) else found


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_are_read_as_written(number: int) -> None:
    assert parse_scalar(str(number)) == number
