"""Names that an expression binds, and the case of a match that is taken."""

import pytest

from anygpu.plan.analyse.findings import CodeFinding
from anygpu.plan.analyse.script import analyse


def batch(text: str, *args: str) -> CodeFinding[int]:
    found = analyse("import torch\n" + text, args=args).batch_size
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("asked", "data"), [("c", "cifar100"), ("d", "cifar100"), ("s", "svhn"), ("x", "mnist")]
)
def test_of_the_cases_of_a_match_the_one_that_is_asked_for_counts(asked: str, data: str) -> None:
    text = (
        "import torch\nfrom torchvision import datasets\np.add_argument('--data', default='c')\nmatch args.data:\n"
        "  case 's':\n    d = datasets.SVHN('x')\n  case 'c' | 'd':\n    d = datasets.CIFAR100('x')\n"
        "  case _:\n    d = datasets.MNIST('x')\n"
    )
    found = analyse(text, args=("--data", asked)).dataset
    assert found is not None
    assert found.value == data


@pytest.mark.parametrize(
    "text", ["if (batch_size := 32) > limit:\n  pass", "DataLoader(d, batch_size=(size := 32))"]
)
def test_a_name_may_be_bound_inside_an_expression(text: str) -> None:
    assert batch(text).value == 32
