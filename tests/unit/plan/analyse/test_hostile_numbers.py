"""Numbers nobody means: none of them stops the reading, is worked out for ever, or comes back as an answer."""

import math
import time

import pytest

from anygpu.plan.analyse.code.conditions import is_plausible
from anygpu.plan.analyse.findings import Analysis, summary
from anygpu.plan.analyse.script import analyse
from anygpu.plan.analyse.trainer import analyse_trainer
from anygpu.plan.hardware.models import find_model

BOUNDED_S = 15.0
HUGE = "0x" + "f" * 9000  # Python reads it, and refuses to print it
COUNTS = (
    "parameters",
    "batch_size",
    "accumulation",
    "epochs",
    "steps",
    "image_size",
    "sequence_length",
    "gpus",
)


def is_sensible(read: Analysis) -> bool:
    """Each count is one, each time ends, and the table can be printed."""
    found = [getattr(read, name) for name in COUNTS]
    job = read.characteristics
    assert job is not None
    numbers = [job.duration_hours.value, *job.duration_range_hours, *job.gpu_memory_range_gb]
    counted = all(f is None or (0 < f.value < 1e31 and is_plausible(f.value)) for f in found)
    return counted and all(map(math.isfinite, numbers)) and bool(summary(read))


@pytest.mark.parametrize(
    "number",
    [
        "0", "-3", "1e999", "-1e999", "1e999 - 1e999", "float('nan')", "int(1e999)", "int('²')", "'²'", "True",
        "0 ** -1", "(-8) ** 0.5", "10 ** 10 ** 10", "1 / 0", "7 % 0", HUGE, f"-{HUGE}", f"{HUGE} * {HUGE}", "3j",
        "...", "[]",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_number_that_is_none_is_no_answer(number: str) -> None:
    names = (
        "batch_size",
        "epochs",
        "max_steps",
        "n_layer",
        "n_embd",
        "vocab_size",
        "image_size",
        "save_every",
    )
    told = "\n".join(f"{name} = {number}" for name in names)
    uses = (
        f"loader = DataLoader(d, batch_size={number})\nfor epoch in range({number}):\n  attention.backward()\n"
        f"  if epoch % ({number}) == 0:\n    torch.save(model, f'{{save_every}}')\n"
        f"model = torch.nn.Sequential(torch.nn.Linear({number}, {number}))\nmodel.fit(x, epochs={number})\n"
    )
    assert is_sensible(analyse(f"import torch\n{told}\n{uses}"))
    assert is_sensible(
        analyse(f"from tensorflow import keras\nfor i in range({number}):\n  m.fit(x, epochs=2)\n")
    )


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999", "9" * 4000, "-1", "²", "", "0x10"])
def test_a_command_line_may_say_anything(number: str) -> None:
    text = "import torch\np.add_argument('--epochs', type=int, default='ten')\nbatch_size = 4\n"
    read = analyse(text, args=("--epochs", number, f"--batch-size={number}", "--", "-", "=", "--=3"))
    assert is_sensible(read)
    assert read.epochs is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.yaml", "epochs: .inf\nbatch_size: .nan\nmax_steps: 1e999"),
        ("c.yaml", f"epochs: {HUGE}\nbatch_size: {HUGE}"),
        ("c.yaml", "epochs: 1" + ":1" * 300 + ".5"),
        ("c.yaml", "epochs: 0001-01-01 00:00:00 +23:59"),
        ("c.json", '{"epochs": NaN, "batch_size": Infinity, "max_steps": -8}'),
        ("c.toml", f"epochs = inf\nbatch_size = nan\nmax_steps = {HUGE}"),
    ],
)
def test_a_configuration_may_say_anything(name: str, text: str) -> None:
    read = analyse(f"import torch\ncfg = load({name!r})\n", files={name: text})
    assert is_sensible(read)
    assert (read.epochs, read.batch_size, read.steps) == (None, None, None)


@pytest.mark.parametrize("given", ["9" * 5000, "²", -4, 0, True, 10**12, 2.5, None])
def test_a_setting_of_a_trainer_may_be_anything(given: object) -> None:
    read = analyse_trainer("yolo", {"epochs": given, "batch_size": given})
    assert is_sensible(read)
    assert read.epochs is not None
    assert read.epochs.confidence < 0.75  # the default


@pytest.mark.parametrize(
    "body",
    [
        "x = 3\nfor i in range(400):\n  x = x * x\nself.a = nn.Linear(x, 3)",
        "x = [1]\nfor i in range(400):\n  x = x + x\nself.a = nn.Linear(len(x), 3)",
        "x, y = [1], [1]\nfor i in range(90):\n  x, y = [x, x], [y, y]\nif x == y or x in [y] or max(x, y):\n  pass",
        "x = 0 ** -1\ny = (-8) ** 0.5\nself.a = nn.Linear(y // 2, x)",
        "self.a = nn.Linear(9, 9)\nself.b = nn.Linear(9, 9)\nfor i in range(9):\n  self.a.weight = self.b.weight",
    ],
    ids=["squares", "doubles", "compares", "undefined", "tied again and again"],
)
def test_a_constructor_is_followed_in_bounded_time_and_space(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    text = f"import torch\nfrom torch import nn\nclass Net(nn.Module):\n  def __init__(self):\n{lines}model = Net()\n"
    begun = time.process_time()
    assert is_sensible(analyse(text))
    assert time.process_time() - begun < BOUNDED_S


@pytest.mark.parametrize(
    "more",
    ["a{0} + a{0}", "f'{{a{0}}}{{a{0}}}'", "os.path.join(a{0}, a{0})"],
    ids=["sum", "f-string", "path"],
)
def test_a_text_that_doubles_line_by_line_is_let_go(more: str) -> None:
    lines = "".join(f"a{i + 1} = {more.format(i)}\ntorch.load(a{i + 1})\n" for i in range(60))
    assert is_sensible(analyse("import torch\na0 = 'data/train'\n" + lines))


def test_keras_layers_larger_than_any_computer_have_no_size() -> None:
    text = (
        "from tensorflow import keras\nfrom tensorflow.keras import layers\n"
        "model = keras.Sequential([layers.Conv2D(9, [99999999999] * 40, input_shape=(9, 9, 9))])\nmodel.fit(x)\n"
    )
    assert analyse(text).parameters is None


def test_what_is_no_name_is_no_model() -> None:
    begun = time.process_time()
    assert find_model("ra" * 50_000 + ".1") is None
    assert time.process_time() - begun < BOUNDED_S
