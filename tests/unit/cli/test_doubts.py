"""What is misspelt is said when it is submitted: the job would wait for it for ever."""

from anygpu.cli import doubts


def test_a_gpu_nobody_knows_is_answered_with_the_nearest() -> None:
    assert doubts.about_gpu("A100") == doubts.about_gpu("nvidia-a100-80gb") == doubts.about_gpu("") == []
    assert "did you mean 'A100'?" in doubts.about_gpu("A100x")[0]
    assert "`anygpu catalog show` lists" in doubts.about_gpu("qqqq")[0]


def test_a_place_that_is_not_there_is_answered_with_a_strategy_or_a_backend() -> None:
    assert doubts.about_places(["local"], ["local", "lab"]) == []
    assert "did you mean 'cheapest'?" in doubts.about_places(["cheapst"], ["local", "lab"])[0]
    assert "there is local, lab." in doubts.about_places(["nowhere"], ["local", "lab"])[0]


def test_where_no_places_are_told_none_is_doubted() -> None:
    assert doubts.about_places(["aws"], []) == []


def test_a_secret_that_is_not_stored_is_said_before_the_job_fails_for_it() -> None:
    assert doubts.about_secrets({"HF_TOKEN"}, ["HF_TOKEN"]) == doubts.about_secrets({"HF_TOKEN"}, None) == []
    assert "anygpu secret set HF_TOKEN" in doubts.about_secrets({"HF_TOKEN"}, [])[0]
