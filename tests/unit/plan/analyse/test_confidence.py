"""An answer is no surer than what it rests on: choices, broken files, bounds, cases that are not taken."""

import json

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


@pytest.mark.parametrize(
    ("bounds", "epochs"),
    [
        ("0, 100, 10", 10),
        ("1, 10, 4", 3),
        ("100, 0, -1", 100),
        ("0, 100, by", None),
        ("9, 3", None),
        ("5, 9, 0", None),
    ],
)
def test_a_loop_that_strides_has_as_many_epochs_as_it_runs(bounds: str, epochs: int | None) -> None:
    found = analyse(f"import torch\nfor epoch in range({bounds}):\n  loss.backward()\n").epochs
    assert (None if found is None else found.value) == epochs


def test_what_follows_from_a_broken_file_is_less_sure_too() -> None:
    text = "import torch\nfor epoch in range(3):\n  torch.save(model, 'a')\nopt.load_state_dict(state)\n"
    whole, broken = (analyse(text + end) for end in ("", "def broken(:\n"))
    for read in (whole, broken):
        assert read.characteristics is not None
        assert read.characteristics.interruptible.value
    assert whole.characteristics is not None
    assert broken.characteristics is not None
    assert broken.characteristics.interruptible.confidence < whole.characteristics.interruptible.confidence
    assert broken.frameworks[0].confidence < whole.frameworks[0].confidence


def test_what_stands_in_a_broken_module_is_less_sure_than_what_stands_in_the_script() -> None:
    read = analyse(
        "import torch\nfrom settings import batch_size\nepochs = 3\n",
        files={"settings.py": "batch_size = 8\ndef broken(:\n"},
    )
    assert read.batch_size is not None
    assert read.epochs is not None
    assert (read.batch_size.confidence_level, read.epochs.confidence_level) == ("medium", "high")


def test_going_on_is_no_surer_than_the_saves_it_goes_on_from() -> None:
    text = "import torch\nfrom engine import fit\np.add_argument('--resume', default='')\nfor epoch in range(9):\n"
    job = analyse(text + "  save_checkpoint(model)\n").characteristics
    assert job is not None
    assert job.interruptible.value
    assert job.interruptible.confidence_level == "medium"


def test_a_line_that_begins_with_a_percent_sign_is_python_where_python_says_so() -> None:
    read = analyse("import torch\nprint('batch %d'\n      % 3)\nbatch_size = 8\n")
    assert not read.problems


def test_a_cell_in_another_language_is_no_broken_python() -> None:
    shell = {"cell_type": "code", "source": "%%bash\nfor f in *; do echo $f; done"}
    timed = {"cell_type": "code", "source": ["%%time\n", "import torch\n", "batch_size = 8\n"]}
    read = analyse(json.dumps({"cells": [shell, timed], "nbformat": 4}), name="a.ipynb")
    assert not read.problems
    assert read.batch_size is not None
    assert read.batch_size.confidence_level == "high"


def test_of_two_modules_of_one_name_the_one_beside_the_script_is_read_first() -> None:
    files = {
        "src/sizes.py": "batch_size = 1\n",
        "sizes.py": "batch_size = 2\n",
        "jobs/sizes.py": "batch_size = 3\n",
    }
    found = analyse(
        "import torch\nfrom sizes import batch_size\n", name="jobs/train.py", files=files
    ).batch_size
    assert found is not None
    assert (found.value, found.file) == (3, "jobs/sizes.py")
