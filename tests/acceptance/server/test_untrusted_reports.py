"""What a job reports never makes its own end fail."""

from tests.acceptance.server.real_server import Server


def test_a_job_that_logs_huge_steps_and_values_completes_in_one_attempt(server: Server) -> None:
    code = """
import time, anygpu
for number in range(3):
    anygpu.log(loss=number, step=time.time_ns())
    anygpu.log({"x" * 300: 1, "big": 10**400, "fine": 2.5}, step=number)
anygpu.progress(fraction=1e308, step=2**60, epoch=2, epochs=3)
"""
    job_id = server.submit(code=code, name="huge")
    job = server.wait_ended(job_id)
    assert (job["status"], job["attempt"]) == ("completed", 1), job
    assert job["metrics"] == {"loss": 2.0, "fine": 2.5}
    assert (job["progress"]["epoch"], job["progress"]["epochs"]) == (2, 3)
    assert server.ask("GET", f"/status?task_id={job_id}").status == 200
    log = server.ask("GET", f"/api/v1/training/{job_id}/logs").data.decode()
    assert log.count("the step of anygpu.log is ignored") == 1
    assert log.count("the metric name 'xxx") == 1


def test_a_completed_job_shows_its_last_values_and_full_progress(server: Server) -> None:
    code = """
import sys
for epoch in range(1, 20_001):
    sys.stdout.write(f"Epoch {epoch}/20000 loss={epoch / 4:.2f}\\n")
"""
    chatty = server.wait_ended(server.submit(code=code, name="chatty"))
    assert (chatty["progress"]["epoch"], chatty["metrics"]) == (20_000, {"loss": 5000.0})
    early = server.submit(code="print('Epoch 3/10 loss=0.5')", name="stops-early")
    job = server.wait_ended(early)
    assert (job["status"], job["progress"]["fraction"], job["progress"]["epoch"]) == ("completed", 1.0, 3)
    assert server.ask("GET", f"/status?task_id={early}").json["progress"]["progress_percent"] == 100
    (listed,) = server.ask("GET", "/api/v1/training?name=stops-early").json["jobs"]
    assert listed["progress"]["fraction"] == 1.0
