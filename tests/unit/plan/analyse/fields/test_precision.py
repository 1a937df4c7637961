"""The precision is that of the arithmetic that is really done."""

import pytest

from anygpu.plan.analyse.script import analyse


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("with torch.autocast('cuda', dtype=torch.bfloat16): pass", "bf16"),
        ("with torch.cuda.amp.autocast(): pass", "fp16"),
        ("amp = False\nwith torch.cuda.amp.autocast(enabled=amp): pass", "fp32"),
        ("Accelerator(mixed_precision='bf16')", "bf16"),
        ("data = np.memmap('a.bin', dtype=np.uint16)", "fp32"),
        ("model = net.half()", "fp16"),
    ],
)
def test_the_precision_is_what_the_arithmetic_is_done_in(text: str, precision: str) -> None:
    read = analyse("import torch\n" + text)
    assert read.precision is not None
    assert read.precision.value == precision


def test_what_stands_behind_an_option_that_is_off_is_not_done() -> None:
    text = (
        "import torch\np.add_argument('--fp16', action='store_true')\n"
        "if args.fp16:\n    net.half()\nelse:\n    net.float()\n"
    )
    off, on = analyse(text).precision, analyse(text, args=("--fp16",)).precision
    assert off is not None
    assert on is not None
    assert (off.value, on.value) == ("fp32", "fp16")
