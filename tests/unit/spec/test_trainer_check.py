"""A trainer by name, or a class in a file that travels with the job."""

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec.load import from_mapping


@pytest.mark.parametrize(
    ("written", "file"),
    [
        ("yolo", None),
        ("sklearn/random-forest", None),
        ("./my_trainer.py:Mine", "./my_trainer.py"),
        ("models/net.py:Net", "models/net.py"),
    ],
)
def test_a_trainer_is_a_name_or_a_class_in_a_file(written: str, file: str | None) -> None:
    spec = from_mapping({"trainer": written})
    assert (spec.trainer, spec.trainer_file) == (written, file)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("./my_trainer.py", "does not name a class in the file; write ./my_trainer.py:MyTrainer"),
        ("../my_trainer.py:Mine", "leads outside the working directory"),
        ("yolo:Mine", "is not a valid trainer name"),
        ("./yolo", "is not a valid trainer name"),
        ("a b", "is not a valid trainer name"),
    ],
)
def test_what_is_neither_says_how_to_write_it(written: str, said: str) -> None:
    with pytest.raises(InvalidSpec, match="trainer") as caught:
        from_mapping({"trainer": written})
    assert said in str(caught.value)
