"""Routes declare their models by the handler's signature."""

from typing import Annotated

import httpx
from fastapi import Depends, FastAPI
from pydantic import Field
from starlette.responses import Response

from anygpu.api.base import ApiModel, RequestModel
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.openapi import complete
from anygpu.server.http.route import JsonBody, ModelRoute, api_router


class Greeting(ApiModel):
    """A greeting."""

    text: str = Field(examples=["hello"])
    loudness: float | None = Field(examples=[None])


class GreetingRequest(RequestModel):
    """Whom to greet."""

    name: str = Field(examples=["you"])


router = api_router("/greetings", tag="greetings")


@router.post("", status_code=201)
async def greet(body: Annotated[GreetingRequest, Depends(JsonBody(GreetingRequest))]) -> Greeting:
    """Greet somebody."""
    return Greeting(text=f"hello {body.name}", loudness=None)


@router.get("/sync")
def greet_in_a_thread() -> Greeting:
    """Greet from a thread."""
    return Greeting(text="hello", loudness=float("inf"))


@router.get("/rendered", response_model=Greeting)
async def greet_rendered() -> Response:
    """Greet with a response that the handler renders."""
    return JsonResponse({"text": "hello", "loudness": 1}, 200)


def application() -> FastAPI:
    app = FastAPI()
    app.router.routes.extend(router.routes)
    return app


async def test_a_returned_model_is_rendered_with_its_nulls() -> None:
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        response = await client.post("/greetings", json={"name": "you"})
        assert (response.status_code, response.json()) == (201, {"text": "hello you", "loudness": None})
        assert (await client.get("/greetings/sync")).json() == {"text": "hello", "loudness": "Infinity"}
        assert (await client.get("/greetings/rendered")).json() == {"text": "hello", "loudness": 1}


def test_the_document_refers_to_the_models_with_examples() -> None:
    app = application()
    document = complete(app.openapi(), app.routes)
    created = document["paths"]["/greetings"]["post"]
    assert created["operationId"] == "greet"
    assert created["responses"]["201"]["content"]["application/json"] == {
        "schema": {"$ref": "#/components/schemas/Greeting"},
        "example": {"text": "hello", "loudness": None},
    }
    assert created["requestBody"]["content"]["application/json"]["example"] == {"name": "you"}
    rendered = document["paths"]["/greetings/rendered"]["get"]["responses"]["200"]["content"]
    assert rendered["application/json"]["schema"] == {"$ref": "#/components/schemas/Greeting"}
    assert "422" not in created["responses"]
    assert "application/problem+json" in created["responses"]["default"]["content"]


def test_validators_of_responses_are_not_built_at_import() -> None:
    routes = [route for route in router.routes if isinstance(route, ModelRoute)]
    assert [route.response_field for route in routes] == [None, None, None]
