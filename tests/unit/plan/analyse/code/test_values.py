"""Values of names and expressions are no surer than what they rest on."""

import pytest

from anygpu.plan.analyse.findings import CodeFinding
from anygpu.plan.analyse.script import analyse

BIG = "import torch\np.add_argument('--big', action='store_true')\n"


def batch(text: str, *args: str) -> CodeFinding[int]:
    found = analyse("import torch\n" + text, args=args).batch_size
    assert found is not None
    return found


def test_a_choice_that_an_option_decides_is_decided() -> None:
    text = BIG + "batch_size = 64 if args.big else 8\n"
    assert batch(text).value == 8
    assert batch(text, "--big").value == 64


def test_a_choice_that_only_the_running_code_knows_is_a_guess() -> None:
    assert batch("batch_size = 64 if long_enough() else 8").confidence_level == "medium"
    assert batch("batch_size = 64 if torch.cuda.is_available() else 8").confidence_level == "high"
    assert batch("batch_size = 64 if long_enough() else 64").confidence_level == "high"


@pytest.mark.parametrize(
    ("text", "value", "sure"),
    [("max(4, 32)", 32, 0.95), ("min(4, 32)", 4, 0.95), ("min(64, len(data))", 64, 0.8)],
)
def test_a_bound_is_worked_out_when_both_are_known(text: str, value: int, sure: float) -> None:
    found = batch(f"DataLoader(d, batch_size={text})")
    assert (found.value, found.confidence) == (value, sure)
