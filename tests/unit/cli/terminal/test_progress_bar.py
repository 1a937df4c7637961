from anygpu.cli.terminal.progress_bar import StreamStatus, TimeLeft, bar


def test_a_bar_is_exact_to_an_eighth_and_never_longer() -> None:
    assert bar(0, 4) == "░░░░"
    assert bar(1, 4) == "████"
    assert bar(0.5, 4) == "██░░"
    assert bar(0.28125, 4) == "█▏░░"
    assert len(bar(7.0, 4)) == 4
    assert bar(-1, 4) == "░░░░"


def test_the_time_left_follows_the_speed() -> None:
    eta = TimeLeft()
    eta.observe(1, 0.0, now=100)
    eta.observe(1, 0.25, now=110)
    assert eta.seconds(now=110) == 30
    assert eta.seconds(now=115) == 25


def test_a_resumed_attempt_uses_its_own_speed() -> None:
    eta = TimeLeft()
    eta.observe(1, 0.0, now=0)
    eta.observe(1, 0.5, now=100)
    eta.observe(2, 0.5, now=500)
    assert eta.seconds(now=500) is None
    eta.observe(2, 0.75, now=510)
    assert eta.seconds(now=510) == 10


def test_without_progress_there_is_no_time_left() -> None:
    eta = TimeLeft()
    eta.observe(1, None, now=0)
    assert eta.seconds(now=10) is None


def test_the_status_line_shows_step_metrics_and_attempt_and_fits() -> None:
    pulse = StreamStatus()
    pulse.update(
        {"kind": "progress", "attempt": 2, "progress": {"fraction": 0.5, "epoch": 3, "epochs": 6}}, now=1
    )
    pulse.update({"kind": "metrics", "attempt": 2, "points": [["loss", 3, 0.0, 0.25]]}, now=2)
    line = pulse.line(100, now=2)
    assert line == "▕████████████▌░░░░░░░░░░░░▏ 50% · epoch 3/6 · loss=0.25 · attempt 2"
    assert len(pulse.line(30, now=2)) == 30


def test_before_any_progress_the_phase_is_shown() -> None:
    pulse = StreamStatus()
    pulse.update({"kind": "event", "event": {"type": "JobWaited", "data": {}}}, now=0)
    assert pulse.line(80, now=0).startswith("waiting")
