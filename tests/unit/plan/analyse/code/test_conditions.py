"""Conditions that are known without running, and those that only the running code knows."""

import ast

import pytest

from anygpu.plan.analyse.code.conditions import evaluate_condition, is_disabled
from anygpu.plan.analyse.script import analyse

TOLD = {"dataset": "cifar10", "amp": False, "resume": None, "depth": 12, "local_rank": -1}


class Options:
    """What is told of a few names."""

    def option_value(self, name: str, unknown: object) -> object:
        return TOLD.get(name, unknown)


@pytest.mark.parametrize(
    ("test", "is_so"),
    [
        ("args.dataset == 'cifar10'", True),
        ("args.dataset == 'lsun'", False),
        ("args.dataset != 'lsun'", True),
        ("args.dataset in ('lsun', 'folder')", False),
        ("args.dataset not in ['lsun']", True),
        ("args.resume is None", True),
        ("args.resume is not None", False),
        ("args.amp", False),
        ("not args.amp", True),
        ("args.amp and os.path.exists(path)", False),
        ("args.depth or unknown", True),
        ("unknown or args.amp", None),
        ("args.depth > 6", None),
        ("args.local_rank == 0", None),
        ("args.dataset == other", None),
        ("1 < args.depth < 20", None),
        ("len(data)", None),
    ],
)
def test_a_condition_holds_does_not_or_is_not_known(test: str, is_so: bool | None) -> None:
    assert evaluate_condition(Options(), ast.parse(test, mode="eval").body) is is_so


def test_one_condition_that_does_not_hold_is_enough() -> None:
    tests = [ast.parse(text, mode="eval").body for text in ("unknown", "args.dataset == 'lsun'")]
    assert is_disabled(Options(), tests)
    assert not is_disabled(Options(), tests[:1])


def test_the_data_set_that_is_asked_for_is_the_one_that_is_read() -> None:
    text = (
        "import torch\nfrom torchvision import datasets\np.add_argument('--data')\n"
        "if args.data == 'svhn':\n  d = datasets.SVHN('x')\nelif args.data == 'c':\n  d = datasets.CIFAR100('x')\n"
    )
    found = analyse(text, args=("--data", "c")).dataset
    assert found is not None
    assert found.value == "cifar100"
