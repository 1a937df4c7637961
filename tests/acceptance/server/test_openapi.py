"""The OpenAPI document is complete, and the server conforms to it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server

BUDGET_S = 800  # a machine with other work on it takes its time
PHASES = "examples,coverage,fuzzing,stateful"
SEEDS = (1, 2, 3)
CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose only machine does not answer, so that no random request runs anything."""
    limits = {"ANYGPU_LIMITS__REQUESTS_PER_S": "0", "ANYGPU_LIMITS__FAILED_LOGINS_PER_MIN": "0"}
    folder = tmp_path_factory.mktemp("server")
    config = folder / "config.toml"
    config.write_text('[backends.lab]\nkind = "ssh"\nhosts = ["nobody@127.0.0.1:1"]\n')
    made = Server(folder, **limits, ANYGPU_LOCAL__ENABLED="no", ANYGPU_CONFIG=str(config))
    made.submit(command=["true"], name="waits")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def document(server: Server) -> dict[str, Any]:
    answer = server.ask("GET", "/api/v1/openapi.json", token=None)
    assert answer.status == 200
    found: dict[str, Any] = answer.json
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_documented_routes_are_in_the_document(document: dict[str, Any]) -> None:
    there = {name for name, _ in operations(document)}
    assert {
        "POST /api/v1/training",
        "GET /api/v1/training/{ref}/metrics",
        "GET /api/v1/training/{ref}/stream",
        "PUT /api/v1/uploads/{sha256}",
        "POST /orchestrate",
        "GET /status",
        "POST /api/v1/tokens",
    } <= there


def test_every_response_and_body_has_an_example(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["summary"], name
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                assert not kind.endswith("json") or "example" in content, f"{name} {status}"
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        assert body is None or "example" in body, name


def test_every_json_response_has_a_named_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                if kind.endswith(("/json", "problem+json")):
                    model = content["schema"]["$ref"].removeprefix("#/components/schemas/")
                    assert schemas[model]["required"], f"{name} {status}"


def test_operations_are_named_by_their_handlers(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(names) == len({*names})
    assert {"submit_job", "list_jobs", "get_job", "list_backends"} <= {*names}


def test_every_route_documents_its_errors(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert "application/problem+json" in operation["responses"]["default"]["content"], name


@pytest.mark.extended
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_responses_to_random_requests_conform_to_the_document(
    server: Server, document: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    """Schemathesis with all its checks, over every route that ends by itself."""
    paths = {path: methods for path, methods in document["paths"].items() if not path.endswith("/stream")}
    schema = tmp_path / "openapi.json"
    schema.write_text(json.dumps({**document, "paths": paths}))
    program = Path(sys.executable).with_name("schemathesis")
    command = [str(program), "--config-file", str(CONFIG), "--no-color", "run", str(schema)]
    command += ["--url", server.url, "--header", f"Authorization: Bearer {server.token}"]
    command += ["--checks", "all", "--phases", PHASES, "--max-examples", "6", "--seed", str(seed)]
    command += ["--request-timeout", "60", "--suppress-health-check", "all"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=BUDGET_S, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert "Traceback" not in server.error_log


def test_allow_lists_every_method_of_a_path(server: Server) -> None:
    allowed = {
        path: server.ask("PUT", path).headers["allow"]
        for path in ("/api/v1/training", "/api/v1/backends/kinds", "/api/v1/training/create", "/healthz")
    }
    assert allowed == {
        "/api/v1/training": "GET, POST",
        "/api/v1/backends/kinds": "GET",
        "/api/v1/training/create": "POST",
        "/healthz": "GET",
    }


def test_public_routes_are_documented_as_public(server: Server, document: dict[str, Any]) -> None:
    public = {name for name, operation in operations(document) if operation.get("security") == []}
    assert public == {"GET /healthz", "GET /readyz", "GET /login/{code}"}


def test_a_body_of_null_is_not_an_empty_body(server: Server) -> None:
    assert server.ask("POST", "/api/v1/tokens", b"null").status == 422
    assert server.ask("POST", "/api/v1/tokens", b"").status == 201
