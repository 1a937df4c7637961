"""Epochs and steps are counted as the code runs them."""

import pytest

from anygpu.plan.analyse.script import analyse


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("for epoch in range(1, 11): pass", 10),
        ("for epoch in tqdm(range(start_epoch, 30)): pass", 30),
        ("for iteration in range(50):\n    model.fit(x, y, epochs=2)", 100),
        ("trainer = pl.Trainer(max_epochs=7)", 7),
        ("pl.Trainer()", 1000),
    ],
)
def test_epochs_are_counted_as_they_run(text: str, epochs: int) -> None:
    read = analyse("import torch\nimport pytorch_lightning as pl\n" + text)
    assert read.epochs is not None
    assert read.epochs.value == epochs


def test_going_over_a_rollout_several_times_is_no_epoch_of_the_training() -> None:
    text = (
        "import torch\nfor update in range(300):\n  for epoch in range(4):\n"
        "    for b in parts:\n      loss.backward()\n"
    )
    read = analyse(text)
    assert read.epochs is None
    assert read.steps is not None
    assert read.steps.value == 300


def test_steps_on_the_command_line_overrule_the_default_of_the_epochs() -> None:
    text = (
        "import torch\np.add_argument('--max_train_steps', type=int)\n"
        "p.add_argument('--num_train_epochs', default=5)\nfor epoch in range(args.num_train_epochs): pass\n"
    )
    read = analyse(text, args=("--max_train_steps", "70"))
    assert read.epochs is None
    assert read.steps is not None
    assert read.steps.value == 70
    assert analyse(text).epochs is not None


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
