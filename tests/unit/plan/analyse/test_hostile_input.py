"""Whatever comes, reading it gives a useful answer in bounded time, raises nothing and runs nothing."""

import ast
import gc
import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.analyse.scoring import SCRIPTS

from anygpu.plan.analyse.findings import summary
from anygpu.plan.analyse.script import analyse

BOUNDED_S = 15.0  # of processor time on any machine; what grows with the square of its input takes minutes
TRAINING = (SCRIPTS / "click_resnet_cifar.py").read_text()


def test_a_binary_file_is_said_to_be_one() -> None:
    read = analyse(random.Random(1).randbytes(50_000), name="train.py")
    assert "binary" in read.problems[0].message
    assert read.characteristics is not None
    assert read.characteristics.duration_hours.confidence_level == "low"


def test_an_empty_file_gives_an_empty_answer() -> None:
    read = analyse("")
    assert read.frameworks == ()
    assert read.model is None
    assert summary(read)[0].value == "none found"


def test_a_syntax_error_lowers_the_confidence_but_keeps_the_findings() -> None:
    good, bad = analyse(TRAINING), analyse(TRAINING + "\ndef broken(:\n    pass\n")
    assert bad.batch_size is not None
    assert good.batch_size is not None
    assert bad.batch_size.value == good.batch_size.value
    assert bad.batch_size.confidence < good.batch_size.confidence
    assert bad.problems[0].line > 0


def test_two_megabytes_are_read_in_bounded_time() -> None:
    filler = "\n".join(
        f"def step_{i}(model, batch):\n    return model(batch, {i}) + {i}" for i in range(45_000)
    )
    text = TRAINING + "\n" + filler
    assert len(text) > 2_000_000
    begun = time.process_time()
    read = analyse(text)
    assert time.process_time() - begun < BOUNDED_S
    assert read.batch_size is not None
    assert read.batch_size.value == 128


@pytest.mark.parametrize("devices", ["[]", "()", "0", "-1", "[0, 1, 2]", "9" * 400, "10**9"])
def test_any_number_of_devices_gets_a_time(devices: str) -> None:
    yolo = f"from ultralytics import YOLO\nYOLO('yolov8n.pt').train(data='coco.yaml', device={devices})\n"
    lightning = "import lightning as L, timm\nmodel = Lit(timm.create_model('resnet50'))\n"
    for text in (yolo, f"{lightning}L.Trainer(max_steps=9, strategy='ddp', devices={devices}).fit(model)\n"):
        job = analyse(text).characteristics
        assert job is not None
        assert 0 < job.duration_range_hours[0] < job.duration_range_hours[1]


def test_a_line_of_two_megabytes_is_passed_over() -> None:
    begun = time.process_time()
    read = analyse("weights = [" + "0.123, " * 300_000 + "]\n" + TRAINING)
    assert time.process_time() - begun < BOUNDED_S
    assert read.model is not None


def test_names_that_lead_in_circles_end() -> None:
    chain = "\n".join(f"a{i} = a{i + 1} * a{(i * 7) % 40} + a{(i * 3) % 40}" for i in range(40))
    begun = time.process_time()
    read = analyse(chain + "\nimport torch\nbatch_size = a0\nepochs = epochs\n")
    assert time.process_time() - begun < BOUNDED_S
    assert read.batch_size is None


def test_code_that_nests_deeper_than_the_stack_is_read() -> None:
    deep = "x = " + "(" * 150 + "1" + ")" * 150 + "\n" + "y = " + " + ".join(["1"] * 5000) + "\n"
    assert analyse(deep + TRAINING).model is not None
    assert analyse("x = " + "[" * 5000 + "]" * 5000 + "\n" + TRAINING).characteristics is not None


def test_nothing_of_the_script_is_run() -> None:
    read = analyse(
        "import torch\nraise SystemExit(1)\nopen('/nonexistent/made', 'w')\nbatch_size = __import__('os').fork()\n"
    )
    assert read.batch_size is None


def test_a_huge_power_is_not_worked_out() -> None:
    begun = time.process_time()
    read = analyse("import torch\nepochs = 9 ** 9 ** 9 ** 9\nbatch_size = 2 ** 5\n")
    assert time.process_time() - begun < BOUNDED_S
    assert read.batch_size is not None
    assert read.batch_size.value == 32


def test_a_broken_notebook_says_what_to_do() -> None:
    read = analyse('{"cells": [', name="train.ipynb")
    assert "export it to .py" in read.problems[0].message


def test_a_notebook_without_code_is_no_error() -> None:
    empty = json.dumps({"cells": [{"cell_type": "markdown", "source": ["# hello"]}], "nbformat": 4})
    assert analyse(empty, name="a.ipynb").frameworks == ()


def test_a_broken_config_file_is_named() -> None:
    read = analyse('import yaml\ncfg = yaml.safe_load(open("c.yaml"))\n', files={"c.yaml": "a: [1, 2\nb: }"})
    assert read.problems[0].file == "c.yaml"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_other_encodings_are_read(encoding: str) -> None:
    text = "# Größe\nimport torch\nbatch_size = 48\n"
    read = analyse(text.encode(encoding))
    assert read.batch_size is not None
    assert read.batch_size.value == 48


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_mutilated_script_never_raises(data: st.DataObject) -> None:
    text = (
        SCRIPTS / data.draw(st.sampled_from(["nanogpt_like.py", "hf_lora_sft.py", "python2_torch.py"]))
    ).read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 300)))
    junk = data.draw(st.text(max_size=20))
    read = analyse(text[:start] + junk + text[end:])
    assert read.characteristics is not None


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_an_answer(data: bytes) -> None:
    assert analyse(data).characteristics is not None


READS_YAML = 'import torch, yaml\ncfg = yaml.safe_load(open("c.yaml"))\n'


def laughing(kind: str) -> str:
    """A few lines of which each names the one before many times."""
    first = {"mappings": "{batch_size: 7}", "lists": "[1, 2]", "merges": "{batch_size: 7}"}[kind]
    lines = [f"a0: &a0 {first}"]
    for number in range(1, 12):
        names = [f"*a{number - 1}"] * 12
        within = {
            "mappings": "{" + ", ".join(f"k{at}: {name}" for at, name in enumerate(names)) + "}",
            "lists": f"[{', '.join(names)}]",
            "merges": f"{{<<: [{', '.join(names)}]}}",
        }[kind]
        lines.append(f"a{number}: &a{number} {within}")
    return "\n".join(lines)


@pytest.mark.parametrize("kind", ["mappings", "lists", "merges"])
def test_a_config_that_names_itself_a_billion_times_is_read_in_part(kind: str) -> None:
    begun = time.process_time()
    assert analyse(READS_YAML, files={"c.yaml": laughing(kind)}).characteristics is not None
    assert time.process_time() - begun < BOUNDED_S


@pytest.mark.parametrize("value", ["!!bool x", "!!timestamp x", "!!int x", "2020-99-99", "9" * 5000, "\0"])
def test_a_config_whose_value_is_not_what_it_says_is_named(value: str) -> None:
    read = analyse(READS_YAML, files={"c.yaml": f"a: {value}"})
    assert "cannot be read" in read.problems[0].message


def test_a_config_with_thousands_of_keys_is_read_in_bounded_time() -> None:
    many = json.dumps({f"key{number}": number for number in range(9000)})
    begun = time.process_time()
    read = analyse('import json\ncfg = json.load(open("c.json"))\n', files={"c.json": many})
    assert time.process_time() - begun < BOUNDED_S
    assert read.characteristics is not None


def test_two_megabytes_of_empty_lines_are_passed_over() -> None:
    begun = time.process_time()
    read = analyse("\n" * 2_000_000 + TRAINING)
    assert time.process_time() - begun < BOUNDED_S
    assert read.batch_size is not None


def test_thousands_of_layers_are_counted_in_bounded_time() -> None:
    layers = "\n".join(f"m{number} = torch.nn.Linear({number}, 9)" for number in range(1, 4000))
    blocks = "\n".join(
        f"class B{n}(torch.nn.Module):\n  def __init__(self):\n    self.a = [{', '.join(f'B{m}()' for m in range(30))}]"
        for n in range(30)
    )
    begun = time.process_time()
    read = analyse(f"import torch\n{layers}\n{blocks}\n")
    assert time.process_time() - begun < BOUNDED_S
    assert read.characteristics is not None


def test_parsing_by_a_finalizer_in_between_does_no_harm() -> None:
    disturbed: list[str] = []

    def parses_too(phase: str, _: object) -> None:
        if len(disturbed) < 2:
            disturbed.append(phase)
            ast.parse("a + b")

    layers = "\n".join(f"m{number} = torch.nn.Linear({number}, 9)" for number in range(1, 2000))
    gc.callbacks.append(parses_too)
    try:
        read = analyse(f"import torch\n{layers}\n" + TRAINING)
    finally:
        gc.callbacks.remove(parses_too)
    assert len(disturbed) == 2
    assert read.batch_size is not None
    assert not read.problems


@pytest.mark.parametrize(
    "text",
    [
        "model = net()" + ".to(d)" * 3000,
        "if " + "not " * 800 + "args.x:\n  batch_size = 4",
        "if a == 0:\n  batch_size = 1\n"
        + "".join(f"elif a == {i}:\n  batch_size = {i}\n" for i in range(2500)),
        "t = {'a': dict(depth=2)}\n" + "".join(f"x{i} = t[k{i}]\nk{i} = x{i}\n" for i in range(4000)),
        "from keras import layers, Model\nclass A(layers.Layer):\n  def __init__(self):\n    self.a = A()\n"
        "  def call(self, x):\n    return A()(self.a(x))\nm = Model(A()(layers.Input((4,))))",
    ],
    ids=["chained", "not not", "elifs", "picks", "a layer of itself"],
)
def test_code_that_goes_round_or_on_and_on_is_read_in_bounded_time(text: str) -> None:
    begun = time.process_time()
    assert analyse("import torch\n" + text + "\n").characteristics is not None
    assert time.process_time() - begun < BOUNDED_S


def test_configurations_that_build_on_each_other_are_read_once() -> None:
    files = {"a.py": "_base_ = ['b.py']\nepochs = 3", "b.py": "_base_ = ['a.py']\nepochs = 9"}
    read = analyse("import torch\nimport mmcv\n", args=("a.py",), files=files)
    assert read.epochs is not None
    assert read.epochs.value == 3
