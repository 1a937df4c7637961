"""Complete the OpenAPI document that FastAPI generates: add models, examples, errors and the schema of a job spec."""

from collections.abc import Iterable
from typing import Any

from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from anygpu.api.base import ApiModel, example_of
from anygpu.api.plans import PlanRequest
from anygpu.api.server import ProblemDetails
from anygpu.server.http.middleware import is_public
from anygpu.server.http.route import ModelRoute

Document = dict[str, Any]

REF_TEMPLATE = "#/components/schemas/{model}"
JSON, PROBLEM_JSON = "application/json", "application/problem+json"
TRAIN_CODE = """\
import anygpu

weight = 0.0
for epoch in range(1, 4):
    weight += (3.0 - weight) / 2
    anygpu.log(loss=(3.0 - weight) ** 2, step=epoch)
with open("model.json", "w") as file:
    file.write(f'{{"weight": {weight}}}')
anygpu.best("model.json")
"""
SPEC_EXAMPLE = {"code": TRAIN_CODE, "name": "line", "tags": ["demo"]}
MODEL_EXAMPLE = {
    "model_name": "tabular",
    "config": {"target": "price", "epochs": 10, "executor": "local", "dataset_path": "/data/houses.csv"},
}
MODEL_AND_CONFIG = {
    "type": "object",
    "required": ["model_name"],
    "properties": {"model_name": {"type": "string"}, "config": {"type": ["object", "null"]}},
    "example": MODEL_EXAMPLE,
}
SPEC_SCHEMA = {
    "anyOf": [{"$ref": "#/components/schemas/JobSpec"}, {"$ref": "#/components/schemas/ModelAndConfig"}]
}
PLAN_SCHEMA = {"anyOf": [{"$ref": "#/components/schemas/PlanRequest"}, *SPEC_SCHEMA["anyOf"]]}


def text_response(description: str, media_type: str, example: str) -> dict[int | str, Document]:
    """Return the `responses` argument for a route that returns text."""
    content = {media_type: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": description, "content": content}}


def object_body(example: Any, *, required: bool = True, schema: Any = None) -> Document:
    """Return the `openapi_extra` argument for a route whose JSON body another package validates, such as a job spec."""
    content = {JSON: {"schema": schema or {"type": "object"}, "example": example}}
    return {"requestBody": {"required": required, "content": content}}


def bytes_body(*, required: bool = True) -> Document:
    """Return the `openapi_extra` argument for a route whose body is bytes."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": required, "content": content}}


def complete(document: Document, routes: Iterable[BaseRoute]) -> Document:
    """Add the models of the routes, the schema of a job spec and the bearer token to the document."""
    models = [route for route in routes if isinstance(route, ModelRoute)]
    references, definitions = _schemas(models)
    for route in models:
        for method in route.methods or ():
            _describe(document["paths"][route.path_format][method.lower()], route, references)
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update({**definitions, **_spec_schemas()})
    for path, operations in document["paths"].items():
        for operation in operations.values() if is_public(path) else ():
            operation["security"] = []
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    return document


def _schemas(routes: list[ModelRoute]) -> tuple[dict[Any, Document], Document]:
    """Return a schema reference for each pair of model and mode (request or response), and the schemas themselves."""
    responses: dict[type[ApiModel], None] = {ProblemDetails: None}
    requests: dict[type[ApiModel], None] = {PlanRequest: None}
    for route in routes:
        responses |= {route.documented_model: None} if route.documented_model else {}
        requests |= {route.json_body.model: None} if route.json_body else {}
    pairs: list[Any] = [(model, "serialization") for model in responses]
    pairs += [(model, "validation") for model in requests]
    references, schema = models_json_schema(pairs, ref_template=REF_TEMPLATE)
    return references, schema.get("$defs", {})


def _describe(operation: Document, route: ModelRoute, references: dict[Any, Document]) -> None:
    responses = operation["responses"]
    responses["default"] = {
        "description": "An error (RFC 9457). `code` is stable, `hint` says what to do.",
        "content": {PROBLEM_JSON: _content(ProblemDetails, references[ProblemDetails, "serialization"])},
    }
    if model := route.documented_model:
        content = _content(model, references[model, "serialization"])
        for status in (each for each in responses if each != "default"):
            responses[status].setdefault("content", {})[JSON] = content
    if body := route.json_body:
        content = _content(body.model, references[body.model, "validation"])
        operation["requestBody"] = {"required": body.required, "content": {JSON: content}}


def _content(model: type[ApiModel], reference: Document) -> Document:
    return {"schema": reference, "example": example_of(model)}


def _spec_schemas() -> Document:
    from anygpu.spec.schema import json_schema

    spec = json_schema(ref_template=REF_TEMPLATE)
    parts = spec.pop("$defs", {})
    spec.pop("$schema", None)
    return {**parts, "JobSpec": spec, "ModelAndConfig": MODEL_AND_CONFIG}
