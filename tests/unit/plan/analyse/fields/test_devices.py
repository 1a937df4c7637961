"""Whether the code needs a GPU, and how sure that is."""

import pytest

from anygpu.plan.analyse.findings import SURE
from anygpu.plan.analyse.script import analyse


def test_a_device_chosen_by_a_flag_does_not_ask_for_the_cpu() -> None:
    text = "import torch\nema = Ema(model, device='cpu' if args.slow else '')\nmodel.cuda()\n"
    needs = analyse(text).needs_gpu
    assert needs is not None
    assert needs.value


@pytest.mark.parametrize(
    ("code", "sure"),
    [
        ("device = 'cuda'\nmodel.to(device)", True),
        ("model.to('cuda:0')", True),
        ("x = torch.zeros(3, device='cuda')", True),
        ("p.add_argument('--device', default='cuda')\nmodel.to(p.parse_args().device)", True),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\nmodel.to(device)", False),
        ("device = torch.device('cuda' if torch.cuda.device_count() else 'cpu')\nmodel.to(device)", False),
        (
            "p.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])\nmodel.to(p.parse_args().device)",
            False,
        ),
    ],
)
def test_only_code_that_cannot_run_without_cuda_surely_needs_a_gpu(code: str, sure: bool) -> None:
    needs = analyse(f"import torch, argparse\np = argparse.ArgumentParser()\n{code}\n").needs_gpu
    assert needs is not None
    assert (needs.value, needs.confidence >= SURE) == (True, sure)
