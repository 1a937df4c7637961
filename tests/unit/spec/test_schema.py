"""The JSON Schema that editors and OpenAPI see."""

import json

from anygpu.spec import JobSpec, json_schema


def test_every_field_and_friendly_name_is_described() -> None:
    schema = json_schema()
    assert set(JobSpec.model_fields) <= set(schema["properties"])
    assert {"timeout", "timeout_s", "max_cost", "deadline"} <= set(schema["$defs"]["Limits"]["properties"])


def test_short_forms_are_allowed() -> None:
    forms = json_schema()["$defs"]["Resources"]["properties"]["gpu"]["anyOf"]
    assert {"type": "string"} in forms
    assert {"type": "integer"} in forms


def test_unknown_keys_are_refused_and_references_resolve() -> None:
    schema = json_schema(ref_template="#/components/schemas/{model}")
    assert schema["additionalProperties"] is False
    text = json.dumps({key: value for key, value in schema.items() if key != "$defs"})
    assert "#/components/schemas/Resources" in text
    assert "#/$defs" not in json.dumps(schema)
