from pathlib import Path

from anygpu.cli.jobs import warnings


def test_only_a_script_that_mentions_cuda_without_a_check_may_need_a_gpu(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    spec = {"script": str(script)}
    script.write_text("model.cuda()")
    assert warnings.may_need_gpu(spec)
    assert not warnings.may_need_gpu({**spec, "resources": {"gpu": 1}})
    assert not warnings.may_need_gpu({"command": "echo cuda"})
    script.write_text("model.cuda() if torch.cuda.is_available() else model")
    assert not warnings.may_need_gpu(spec)


def test_an_unknown_gpu_gets_a_suggestion() -> None:
    assert (
        warnings.gpu_warnings("A100")
        == warnings.gpu_warnings("nvidia-a100-80gb")
        == warnings.gpu_warnings("")
        == []
    )
    assert "Did you mean 'A100'?" in warnings.gpu_warnings("A100x")[0]
    assert "`anygpu catalog show` lists" in warnings.gpu_warnings("qqqq")[0]


def test_an_unknown_backend_gets_a_suggestion() -> None:
    assert warnings.backend_warnings(["local"], ["local", "lab"]) == []
    assert "Did you mean 'cheapest'?" in warnings.backend_warnings(["cheapst"], ["local", "lab"])[0]
    assert "Configured: local, lab." in warnings.backend_warnings(["nowhere"], ["local", "lab"])[0]


def test_without_a_list_of_backends_there_is_no_warning() -> None:
    assert warnings.backend_warnings(["aws"], []) == []


def test_a_missing_secret_is_a_warning() -> None:
    assert (
        warnings.secret_warnings({"HF_TOKEN"}, ["HF_TOKEN"])
        == warnings.secret_warnings({"HF_TOKEN"}, None)
        == []
    )
    assert "anygpu secret set HF_TOKEN" in warnings.secret_warnings({"HF_TOKEN"}, [])[0]
