"""How often the code saves checkpoints."""

import pytest

from anygpu.plan.analyse.script import analyse


@pytest.mark.parametrize(("asked", "every"), [("0", None), ("-5", None), ("0.1", None), ("200", "200 steps")])
def test_how_often_it_saves_is_a_number_of_steps_or_not_known(asked: str, every: str | None) -> None:
    text = f"from transformers import TrainingArguments\nTrainingArguments('o', save_steps={asked})\n"
    found = analyse(text).checkpoint_every
    assert (None if found is None else found.value) == every
