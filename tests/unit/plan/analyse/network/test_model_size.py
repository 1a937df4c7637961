"""Networks that are written out are counted as they are built, without building them."""

import time

import pytest

from anygpu.plan.analyse.script import analyse

RESIDUAL = """
import torch
from torch import nn


class Basic(nn.Module):
    expansion = 1

    def __init__(self, inside, planes, stride=1):
        super().__init__()
        self.a = nn.Conv2d(inside, planes, 3, stride, 1, bias=False)
        self.na = nn.BatchNorm2d(planes)
        self.b = nn.Conv2d(planes, planes, kernel_size=3, padding=1, bias=False)
        self.nb = nn.BatchNorm2d(planes)
        self.short = nn.Sequential()
        if stride != 1 or inside != planes * self.expansion:
            self.short = nn.Sequential(nn.Conv2d(inside, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))


class ResNet50(nn.Module):
    def __init__(self, block, depths, classes=10):
        super().__init__()
        self.width = 64
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64))
        self.one = self.stage(block, 64, depths[0], 1)
        self.two = self.stage(block, 128, depths[1], 2)
        self.three = self.stage(block, 256, depths[2], 2)
        self.four = self.stage(block, 512, depths[3], 2)
        self.head = nn.Linear(512 * block.expansion, classes)

    def stage(self, block, planes, count, stride):
        made = []
        for s in [stride] + [1] * (count - 1):
            made.append(block(self.width, planes, s))
            self.width = planes * block.expansion
        return nn.Sequential(*made)


net = ResNet50(Basic, [2, 2, 2, 2]).cuda()
"""

TIED = """
import torch
from dataclasses import dataclass
from torch import nn

@dataclass
class Shape:
    depth: int = 12
    width: int = 768
    words: int = 50257
    places: int = 1024

class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(shape.width) for _ in range(2)])
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.mlp = nn.Sequential(nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width))

class Speaker(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.word = nn.Embedding(shape.words, shape.width)
        self.place = nn.Embedding(shape.places, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)
        self.head.weight = self.word.weight

model = Speaker(Shape())
"""

ENCODER = """
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self, words, width=64, depth=4):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=256)
        self.encoder = nn.TransformerEncoder(layer, num_layers=depth)
        self.out = nn.Linear(width, 9)

model = Tagger(1000)
"""

FUNCTIONAL = """
from tensorflow import keras
from tensorflow.keras import layers

def block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.MaxPooling2D()(x)

def build(classes):
    inputs = keras.Input(shape=(32, 32, 3))
    x = inputs
    for filters in (16, 32):
        x = block(x, filters)
    x = layers.Flatten()(x)
    return keras.Model(inputs, layers.Dense(classes)(x))

model = build(10)
model.fit(x, y, epochs=2)
"""

STACKED = """
from keras.models import Sequential
from keras.layers import LSTM, Bidirectional, Dense, Embedding, Input

model = Sequential()
model.add(Input(shape=(100,)))
model.add(Embedding(5000, 64))
model.add(Bidirectional(LSTM(32)))
model.add(Dense(1))
model.fit(x, y, epochs=2)
"""

COMPACT = """
import jax, jax.numpy as jnp
from flax import linen as nn

class Small(nn.Module):
    classes: int = 10

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=8, kernel_size=(3, 3))(x))
        x = nn.max_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        return nn.Dense(self.classes)(x)

model = Small()
params = model.init(key, jnp.ones((1, 28, 28, 1)))
"""

TWO = """
import torch, timm
from torch import nn
from transformers import AutoModel

class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.sees = timm.create_model("resnet50")
        self.reads = AutoModel.from_pretrained("bert-base-uncased")
        self.joint = nn.Linear(2048 + 768, 256)

model = Towers().cuda()
"""


def weights(text: str) -> int | None:
    read = analyse(text)
    return None if read.parameters is None else read.parameters.value


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (RESIDUAL, 11_173_962),
        (TIED, 124_439_808),
        (ENCODER, 64_000 + 4 * 49_984 + 585),
        (FUNCTIONAL, 448 + 4_640 + 8 * 8 * 32 * 10 + 10),
        (STACKED, 320_000 + 2 * 4 * (32 * 96 + 32) + 65),
        (COMPACT, 80 + 14 * 14 * 8 * 10 + 10),
    ],
    ids=["residual", "tied", "encoder", "functional", "stacked", "compact"],
)
def test_a_network_is_counted_to_the_last_weight(text: str, count: int) -> None:
    assert weights(text) == count


def test_a_network_of_several_published_ones_is_their_sum() -> None:
    read = analyse(TWO)
    assert read.model is not None
    assert read.model.value == "Towers"
    assert read.parameters is not None
    assert read.parameters.value == pytest.approx(25.56e6 + 109.5e6 + 0.72e6, rel=0.01)


@pytest.mark.parametrize(
    "body",
    [
        "self.again = Net()",
        "self.parts = [Net(), Net(), Net()]",
        "self.parts = [[nn.Linear(i, j) for i in range(1, 400)] for j in range(1, 400)]",
        "[self.parts.append(n) for n in self.grow(range(10 ** 9))]",
        "x = [1] * 10 ** 9\n    self.parts = [nn.Linear(n, n) for n in x]",
        "self.a = nn.Linear(9 ** 16 ** 9, 10 ** 300)",
        "self.a = nn.Conv2d(1, 2, [9 ** 9] * 400)",
    ],
)
def test_a_constructor_without_end_is_left_alone(body: str) -> None:
    head = "import torch\nfrom torch import nn\nclass Net(nn.Module):\n  def __init__(self):\n"
    text = f"{head}    {body}\nmodel = Net()\n"
    begun = time.process_time()
    assert analyse(text).characteristics is not None
    assert time.process_time() - begun < 15.0


def test_a_size_that_only_the_data_knows_is_not_invented() -> None:
    text = (
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n  def __init__(self, n):\n"
        "    self.a = nn.Linear(n, 8)\n    self.b = nn.Linear(8, n)\nmodel = Net(len(words))\n"
    )
    assert weights(text) is None


def test_a_layer_of_ones_own_in_a_keras_model_is_not_the_model() -> None:
    text = (
        "from tensorflow import keras\nfrom tensorflow.keras import layers\n"
        "class Mixer(layers.Layer):\n  def __init__(self, n):\n    self.a = keras.Sequential([layers.Dense(n)])\n"
        "inputs = keras.Input(shape=(8,))\nx = Mixer(8)(inputs)\n"
        "model = keras.Model(inputs, layers.Dense(2)(x), name='mixed')\nmodel.fit(x, y)\n"
    )
    read = analyse(text)
    assert read.model is not None
    assert read.model.value == "mixed"
    assert read.parameters is None


def test_sizes_in_a_table_of_settings_are_followed() -> None:
    text = (
        "import torch\nfrom torch import nn\nh = {'width': 8, 'kernels': [3, 5]}\n"
        "class Net(nn.Module):\n  def __init__(self, h):\n    self.parts = nn.ModuleList()\n"
        "    for i, k in enumerate(h['kernels']):\n"
        "      self.parts.append(nn.Conv1d(h['width'] // 2 ** i, h['width'], k))\nmodel = Net(h)\n"
    )
    assert weights(text) == (8 * 8 * 3 + 8) + (4 * 8 * 5 + 8)
