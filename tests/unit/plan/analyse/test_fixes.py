"""Lints have the position of the code they are about, and edits that resolve them."""

import pytest

from anygpu.plan.analyse.findings import Lint
from anygpu.plan.analyse.script import analyse

TORCH = "import torch\nfrom torch.utils.data import DataLoader\n"
LOOP = "model.cuda()\nfor epoch in range(90):\n    for x in loader:\n        loss.backward()\n"


def lint_of(code: str, text: str) -> Lint:
    return next(lint for lint in analyse(text).lints if lint.code == code)


def fixed(code: str, text: str) -> str:
    """Return the text with the fix of this lint applied, after checking that the old lines are the real ones."""
    fix = lint_of(code, text).fix
    assert fix is not None
    lines = text.split("\n")
    for edit in fix.edits:
        assert lines[edit.line - 1] == edit.old
        lines[edit.line - 1] = edit.new
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loader = DataLoader(data, 32)", "loader = DataLoader(data, 32, num_workers=4)"),
        (
            "loader = DataLoader(data, batch_size=32,)",
            "loader = DataLoader(data, batch_size=32, num_workers=4,)",
        ),
        ("loader = DataLoader(data, num_workers=0)", "loader = DataLoader(data, num_workers=4)"),
        ("é = DataLoader('ü'); loader = é", "é = DataLoader('ü', num_workers=4); loader = é"),
        (
            "loader = DataLoader(\n    data,  # (all)\n)",
            "loader = DataLoader(\n    data, num_workers=4,  # (all)\n)",
        ),
    ],
)
def test_a_loader_without_workers_gets_four(before: str, after: str) -> None:
    text = f"{TORCH}{before}\n{LOOP}"
    assert fixed("no-workers", text) == f"{TORCH}{after}\n{LOOP}"
    assert all(lint.code != "no-workers" for lint in analyse(fixed("no-workers", text)).lints)


def test_the_default_of_an_option_is_changed() -> None:
    option = 'parser.add_argument("--workers", type=int, default=0)'
    text = (
        f"import argparse\n{TORCH}parser = argparse.ArgumentParser()\n{option}\nargs = parser.parse_args()\n"
    )
    text += f"loader = DataLoader(data, num_workers=args.workers)\n{LOOP}"
    assert "default=4)" in fixed("no-workers", text)


def test_a_path_of_one_machine_is_taken_from_the_dataset() -> None:
    text = f'{TORCH}from torchvision.datasets import ImageFolder\ndata = ImageFolder("/datasets/imagenet")\n{LOOP}'
    lint = lint_of("absolute-path", text)
    line = text.split("\n")[lint.line - 1]
    assert line[lint.column : lint.end_column] == '"/datasets/imagenet"'
    after = fixed("absolute-path", text)
    assert after.startswith("import os\nimport torch\n")
    assert 'ImageFolder(os.environ.get("ANYGPU_DATASET", "/datasets/imagenet"))' in after


def test_an_import_of_os_is_not_repeated() -> None:
    text = f'import os\n{TORCH}from torchvision.datasets import ImageFolder\ndata = ImageFolder("/data/x")\n{LOOP}'
    assert fixed("absolute-path", text).count("import os") == 1


def test_mixed_precision_is_added_where_the_framework_has_an_argument_for_it() -> None:
    text = (
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        'args = TrainingArguments("out", num_train_epochs=3)\nTrainer(model, args).train()\n'
    )
    assert 'TrainingArguments("out", num_train_epochs=3, bf16=True)' in fixed("no-amp", text)


def test_a_file_that_does_not_parse_gets_no_fix() -> None:
    text = f"{TORCH}loader = DataLoader(data, 32)\n{LOOP}def broken(:\n"
    assert all(lint.fix is None for lint in analyse(text).lints)


def test_an_edit_that_would_not_parse_is_not_offered() -> None:
    text = f"{TORCH}loader = DataLoader(x for x in data)\n{LOOP}"
    assert lint_of("no-workers", text).fix is None
