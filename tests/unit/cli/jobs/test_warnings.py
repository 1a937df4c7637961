"""What is misspelt is said when it is submitted: the job would wait for it for ever."""

from anygpu.cli.jobs import warnings


def test_a_gpu_nobody_knows_is_answered_with_the_nearest() -> None:
    assert (
        warnings.gpu_warnings("A100")
        == warnings.gpu_warnings("nvidia-a100-80gb")
        == warnings.gpu_warnings("")
        == []
    )
    assert "Did you mean 'A100'?" in warnings.gpu_warnings("A100x")[0]
    assert "`anygpu catalog show` lists" in warnings.gpu_warnings("qqqq")[0]


def test_a_place_that_is_not_there_is_answered_with_a_strategy_or_a_backend() -> None:
    assert warnings.backend_warnings(["local"], ["local", "lab"]) == []
    assert "Did you mean 'cheapest'?" in warnings.backend_warnings(["cheapst"], ["local", "lab"])[0]
    assert "Configured: local, lab." in warnings.backend_warnings(["nowhere"], ["local", "lab"])[0]


def test_where_no_places_are_told_none_is_doubted() -> None:
    assert warnings.backend_warnings(["aws"], []) == []


def test_a_secret_that_is_not_stored_is_said_before_the_job_fails_for_it() -> None:
    assert (
        warnings.secret_warnings({"HF_TOKEN"}, ["HF_TOKEN"])
        == warnings.secret_warnings({"HF_TOKEN"}, None)
        == []
    )
    assert "anygpu secret set HF_TOKEN" in warnings.secret_warnings({"HF_TOKEN"}, [])[0]
