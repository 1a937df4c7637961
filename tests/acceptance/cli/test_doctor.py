"""`anygpu doctor` with a real server."""

from tests.acceptance.cli.conftest import Shell


def test_doctor_is_a_pre_flight_for_a_first_job(anygpu: Shell) -> None:
    told = anygpu.json("doctor")
    by_check = {each["what"]: each for each in told["findings"]}
    assert {"python", "scripts", "installer", "disk", "gpus", "server", "clock", "backend", "slots"} <= set(
        by_check
    )
    assert by_check["backend"]["said"].startswith("local: ")
    assert (told["problems"], by_check["slots"]["state"]) == (0, "ok")
    assert all(each["advice"] for each in told["findings"] if each["state"] != "ok")


def test_doctor_checks_the_data_of_the_first_job(anygpu: Shell) -> None:
    anygpu.write("t.csv", "a,b,y", *(f"{n},{n % 3},{n % 2}" for n in range(30)))
    good = anygpu("doctor", "--dataset", "t.csv", "--trainer", "tabular", "--set", "target=y").stdout
    assert b"ok    trainer   tabular can read t.csv" in good
    bad = anygpu("doctor", "--dataset", "t.csv", "--trainer", "tabular", "--set", "target=q", code=1).stdout
    assert b"fail  trainer   dataset: t.csv:1: there is no column 'q'; the columns are a, b, y" in bad


def test_doctor_fails_if_a_backend_cannot_be_used(anygpu: Shell) -> None:
    nobody = ("--set", "endpoint=http://127.0.0.1:9", "--credential", "api_key=-")
    anygpu("backend", "add", "pod", "--kind", "runpod", *nobody, stdin=b"wrong\n")
    try:
        told = anygpu.json("doctor", code=1)
    finally:
        anygpu("backend", "rm", "pod")
    problem = next(each for each in told["findings"] if each["state"] == "fail")
    assert problem["what"] == "backend"
    assert problem["said"].startswith("pod: ")
    assert "anygpu backend add pod --change" in problem["advice"]
