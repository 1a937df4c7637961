from anygpu.cli.jobs.outputs import event_line


def test_an_event_is_one_line_without_internal_fields() -> None:
    data = {
        "attempt": 1,
        "name": "anygpu-1",
        "offer": {"backend": "local", "name": "box"},
        "ticket_sha256": "ab",
    }
    event = {
        "position": 7,
        "at": "2030-01-01T12:00:03.123Z",
        "type": "AttemptLaunching",
        "data": data,
        "job_id": "j",
    }
    assert event_line(event) == "    7  12:00:03.123  AttemptLaunching    attempt=1 name=anygpu-1 offer=box"
