"""Long, deep and repeated code: the time it takes grows with its length, not with the square of it."""

import json
import time
from collections.abc import Mapping

import pytest

from anygpu.plan.analyse.script import analyse

BOUNDED_S = 30.0  # some seconds at most on a slow machine; what grows with the square takes longer


def is_quick(text: str, files: Mapping[str, str] | None = None, args: tuple[str, ...] = ()) -> bool:
    begun = time.process_time()
    assert analyse("import torch\n" + text, files=files, args=args).characteristics is not None
    return time.process_time() - begun < BOUNDED_S


@pytest.mark.parametrize("depth", [90, 110, 600, 1500, 5000])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "()"), ("", ".a()"), ("", "[0]"), ("a + ", ""), ("-", ""), ("not ", ""), ("1 if a else ", ""),
        ("lambda: ", ""), ("[", "]"), ("f(", ")"), ("{'a': ", "}"),
    ],
)  # fmt: skip
def test_however_deep_it_nests_it_is_read(before: str, after: str, depth: int) -> None:
    nested = before * depth + "d" + after * depth
    read = analyse(
        f"import torch\nbatch_size = 8\nx = {nested}\nfor epoch in range({nested}):\n  if {nested}:\n"
        f"    torch.save(m, {nested})\nloader = DataLoader({nested}, batch_size={nested})\n"
        f"state = torch.load(f'{{{nested}}}')\n"
    )
    assert read.characteristics is not None
    assert read.frameworks


def test_a_chain_of_names_longer_than_the_stack_ends() -> None:
    chain = "".join(f"a{i} = max(a{i + 1})\n" for i in range(3000))
    assert analyse(f"import torch\n{chain}DataLoader(d, batch_size=a0)\n").characteristics is not None


@pytest.mark.parametrize(
    "text",
    [
        "class Net(torch.nn.Module): pass\n" + "model=Net()\n" * 12_000,
        "class A:\n" + " a=1\n" * 12_000 + "A()\n" * 18_000,
        "t={" + ",".join(f"'{i}':{{}}" for i in range(4000)) + "}\n" + "t[a]\n" * 16_000,
        "def f(k):\n if k:\n" + "  g()\n" * 10_000 + "f(1)\n" * 10_000,
        "batch_size=f(batch_size=batch_size)\n" * 4000,
        "".join(f"l{i}=DataLoader(d,{i})\n" for i in range(6000)),
        "class B(torch.nn.Module):\n" + "".join(f" a{i}=1\n" for i in range(6000))
        + "class A(torch.nn.Module):\n def __init__(self):\n"
        + "".join(f"  x=B.a{i}\n" for i in range(4000)) + "model=A()\n",
    ],
    ids=["models", "a long class", "a long table", "conditions", "one name", "loaders", "attributes"],
)  # fmt: skip
def test_generated_code_is_read_in_bounded_time(text: str) -> None:
    assert is_quick(text)


@pytest.mark.parametrize(
    "line",
    ["except" + " " * 6000 + "x", "print a" + " " * 19_000 + "b"],
    ids=["except", "print"],
)
def test_lines_that_may_be_python_2_are_read_in_bounded_time(line: str) -> None:
    assert is_quick("print 'old'\n" + f"{line}\n" * 6)


def test_a_line_that_never_comes_to_pmap_is_read_in_bounded_time() -> None:
    assert is_quick("import jax\n# " + "from jax import " * 9000 + "\n")


HYDRA = "import hydra\n" + "@hydra.main(config_path='conf', config_name='c')\ndef main(cfg): pass\n" * 4
DICTS = "a0=dict()\n" + "".join(f"a{i + 1}=dict(x=a{i},y=a{i},z=a{i})\n" for i in range(4500))


@pytest.mark.parametrize(
    ("text", "name", "config"),
    [
        (HYDRA, "conf/c.yaml", "\n" * 59_000),
        ("f('c.toml')\n", "c.toml", "a." * 29_000 + "a = 1\n"),
        ("f('c.json')\n", "c.json", "[" * 90_000 + "]" * 90_000),
        ("import mmcv\n", "c.py", DICTS),
    ],
    ids=["empty lines", "a key of many parts", "deep", "dicts of dicts"],
)
def test_a_configuration_is_read_in_bounded_time(text: str, name: str, config: str) -> None:
    assert is_quick(text, {name: config}, args=(name,))


def test_many_words_and_many_files_are_compared_in_bounded_time() -> None:
    files = {f"conf/x{i}.yaml": "a: 1" for i in range(200)}
    assert is_quick("".join(f"f('a{i}')\n" for i in range(10_000)), files)


def test_fifty_megabytes_are_read_in_part() -> None:
    begun = time.process_time()
    read = analyse("import torch\nbatch_size = 8\n" + "x = 1\n" * 8_000_000)
    assert time.process_time() - begun < BOUNDED_S
    assert read.batch_size is not None
    assert "48,000,028 characters" in read.problems[0].message


def test_a_notebook_of_pictures_is_read_whole() -> None:
    picture = {"cell_type": "code", "source": "batch_size = 8", "outputs": [{"data": "x" * 5_000_000}]}
    cells = [
        {"cell_type": "code", "source": ["import torch\n", "!nvidia-smi\n", "%matplotlib inline"]},
        picture,
    ]
    read = analyse(json.dumps({"cells": cells, "nbformat": 4}), name="a.ipynb")
    assert read.batch_size is not None
    assert not read.problems
