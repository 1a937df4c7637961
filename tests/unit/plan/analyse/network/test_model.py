"""The model is found by its name or its class."""

from anygpu.plan.analyse.script import analyse


def test_a_class_of_ones_own_that_loads_itself_is_the_model() -> None:
    text = "import torch\nfrom model import GPT\nmodel = GPT(conf)\nmodel = GPT.from_pretrained('scratch')\n"
    read = analyse(text)
    assert read.model is not None
    assert read.model.value == "GPT"
