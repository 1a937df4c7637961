"""The JSON Schema of a spec, for OpenAPI and for editors that check and complete job files."""

from collections.abc import Mapping
from typing import Any

from anygpu.spec.jobspec import JobSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_SHORT_FORMS: Mapping[str, Mapping[str, list[dict[str, Any]]]] = {
    "JobSpec": {
        "args": [_TEXT],
        "tags": [_TEXT],
        "setup": [_TEXT],
        "outputs": [_TEXT],
        "secrets": [_TEXTS],
        "workdir": [_TEXT],
        "dataset": [_TEXT],
        "notify": [_TEXT, _TEXTS, {"$ref": "Notify"}],
    },
    "Resources": {"gpu": [_TEXT, {"type": "integer"}]},
    "Checkpoint": {"paths": [_TEXT], "resume_args": [_TEXT]},
    "Placement": {
        "fallbacks": [_TEXT],
        "allowed": [_TEXT],
        "forbidden": [_TEXT],
        "interruptible": [{"type": "boolean"}],
        "hold_on_failure": [{"type": "boolean"}],
    },
}


def json_schema(*, ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
    """Return the JSON Schema of everything that `from_mapping` accepts: fields, aliases and short forms."""
    schema = JobSpec.model_json_schema(mode="validation", ref_template=ref_template)
    for model, fields in _SHORT_FORMS.items():
        properties = (schema if model == "JobSpec" else schema["$defs"][model])["properties"]
        for name, forms in fields.items():
            properties[name] = _with_short_forms(
                properties[name], [_resolve_ref(form, ref_template) for form in forms]
            )
    return {"$schema": DIALECT, **schema}


def _with_short_forms(schema: dict[str, Any], forms: list[dict[str, Any]]) -> dict[str, Any]:
    about: dict[str, Any] = {key: schema[key] for key in ("title", "default", "description") if key in schema}
    bare = {key: value for key, value in schema.items() if key not in about}
    return {**about, "anyOf": [*bare.get("anyOf", [bare]), *forms]}


def _resolve_ref(form: dict[str, Any], ref_template: str) -> dict[str, Any]:
    return {"$ref": ref_template.format(model=form["$ref"])} if "$ref" in form else form
