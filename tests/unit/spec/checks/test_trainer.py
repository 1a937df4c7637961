"""A trainer by name, or a class in a file that travels with the job."""

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec.checks.trainer import trainer_problems
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


@pytest.mark.parametrize(
    ("job", "field", "said"),
    [
        (
            {"trainer": "yolo", "resources": {"gpu": 2}, "config": {"rect": True}},
            "config.rect",
            "cannot be used on several GPUs; remove it",
        ),
        (
            {"trainer": "xgboost", "resources": {"gpu": 2}, "config": {"target": "y"}},
            "resources.gpu",
            "one process",
        ),
        (
            {"trainer": "nanogpt", "resources": {"gpu": 3}},
            "config.batch_size",
            "the 3 GPUs share each batch, and 16 is not a multiple of 3",
        ),
        ({"trainer": "nanogpt", "resources": {"nodes": 2}}, "resources.nodes", "the GPUs of one machine"),
        (
            {"trainer": "nanogpt", "launcher": "torchrun"},
            "launcher",
            "starts one process for each GPU itself",
        ),
    ],
)
def test_what_a_trainer_cannot_run_on_is_refused_with_the_reason(
    job: dict[str, object], field: str, said: str
) -> None:
    (problem,) = trainer_problems(from_mapping({"dataset": "data", **job}))
    assert problem.place == field
    assert said in problem.message


def test_trainers_that_can_use_several_gpus_are_accepted() -> None:
    for trainer in ("nanogpt", "torch-classifier", "huggingface", "yolo", "rtdetr", "rfdetr"):
        spec = from_mapping({"trainer": trainer, "dataset": "data", "resources": {"gpu": 4}})
        assert not [*trainer_problems(spec)], trainer
    own = from_mapping({"trainer": "./mine.py:Mine", "resources": {"gpu": 2}})
    assert not [*trainer_problems(own)]
