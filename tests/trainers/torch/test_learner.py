"""The learning rate is a function of the step."""

import pytest

from anygpu.trainers.torch import learner


@pytest.mark.parametrize(
    ("name", "start", "middle", "end"),
    [
        ("cosine", 1.0, 0.5, 0.0),
        ("step", 1.0, 0.1, 0.01),
        ("onecycle", 0.04, 0.811, 0.0001),
        ("none", 1, 1, 1),
    ],
)
def test_the_learning_rate_is_a_function_of_the_step(
    name: str, start: float, middle: float, end: float
) -> None:
    rate = learner.schedule(name, 300)
    assert [rate(0), rate(150), rate(299)] == pytest.approx([start, middle, end], abs=1e-3)


def test_a_warm_up_rises_to_the_whole_rate_and_cosine_ends_at_its_floor() -> None:
    rate = learner.schedule("cosine", 100, warmup=10, floor=0.1)
    assert [rate(0), rate(4), rate(10), rate(100)] == pytest.approx([0.1, 0.5, 1.0, 0.1])
