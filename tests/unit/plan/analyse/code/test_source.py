"""Files are parsed as Python where they are Python; a broken file lowers the confidence of its values."""

import json

from anygpu.plan.analyse.script import analyse


def test_what_stands_in_a_broken_module_is_less_sure_than_what_stands_in_the_script() -> None:
    read = analyse(
        "import torch\nfrom settings import batch_size\nepochs = 3\n",
        files={"settings.py": "batch_size = 8\ndef broken(:\n"},
    )
    assert read.batch_size is not None
    assert read.epochs is not None
    assert (read.batch_size.confidence_level, read.epochs.confidence_level) == ("medium", "high")


def test_a_line_that_begins_with_a_percent_sign_is_python_where_python_says_so() -> None:
    read = analyse("import torch\nprint('batch %d'\n      % 3)\nbatch_size = 8\n")
    assert not read.problems


def test_a_cell_in_another_language_is_no_broken_python() -> None:
    shell = {"cell_type": "code", "source": "%%bash\nfor f in *; do echo $f; done"}
    timed = {"cell_type": "code", "source": ["%%time\n", "import torch\n", "batch_size = 8\n"]}
    read = analyse(json.dumps({"cells": [shell, timed], "nbformat": 4}), name="a.ipynb")
    assert not read.problems
    assert read.batch_size is not None
    assert read.batch_size.confidence_level == "high"
