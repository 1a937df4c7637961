"""The weights of a PyTorch network are counted from its constructors."""

from anygpu.plan.analyse.script import analyse


def test_a_block_in_a_list_of_six_counts_six_times() -> None:
    text = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, d):
        self.up = nn.Linear(d, 4 * d)
class Net(nn.Module):
    def __init__(self, dim=10, depth=6):
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
model = Net()
"""
    read = analyse(text)
    assert read.parameters is not None
    assert read.parameters.value == 6 * (10 * 40 + 40)


def test_a_parameter_given_different_values_stands_for_none_of_them() -> None:
    text = "import torch\ndef block(n_in, n_out):\n    return torch.nn.Linear(n_in, n_out)\n"
    read = analyse(text + "net = torch.nn.Sequential(block(3, 64), block(64, 512))\n")
    assert read.parameters is None


def test_a_matrix_that_is_tied_counts_once() -> None:
    text = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        self.into, self.out = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)
        self.out.weight = self.into.weight
        self.out.weight = self.into.weight
model = Net()
"""
    read = analyse(text)
    assert read.parameters is not None
    assert read.parameters.value == 400
