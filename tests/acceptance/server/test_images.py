"""Jobs in container images on the server's own machine. A small program stands in for docker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.contracts.agent.test_container_jobs import asked, with_docker

IMAGE = "some/image"


@pytest.fixture
def in_container(new_server: Callable[..., Server], tmp_path: Path) -> Server:
    return new_server(**with_docker(tmp_path))


def test_an_image_runs_on_the_servers_machine_if_it_has_a_container_program(
    in_container: Server, tmp_path: Path
) -> None:
    code = "open('model.json', 'w').write('{}')\nprint('inside')"
    job = in_container.wait_ended(in_container.submit(code=code, image=IMAGE, outputs=["model.json"]))
    assert (job["status"], job["backend"]) == ("completed", "local"), job
    assert job["recent_logs"][-1] == "inside"
    files = in_container.ask("GET", f"/api/v1/training/{job['id']}/artifacts").json["artifacts"]
    assert [file["name"] for file in files] == ["model.json"]
    assert "run --rm" in asked(tmp_path)


def test_an_image_is_never_run_without_a_container_program(
    new_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    server = new_server(PATH=str(tmp_path / "empty"))
    answer = server.ask("POST", "/api/v1/training", {"code": "print(1)", "image": IMAGE})
    if answer.status == 201:
        job = server.wait(answer.json["id"], lambda job: bool(job["reason"]))
        assert "does not run container images" in job["reason"]
    else:
        assert "does not run container images" in answer.data.decode()
