"""The summary of an analysis is readable rows, each with its confidence."""

import pytest

from anygpu.plan.analyse.findings import summary
from anygpu.plan.analyse.script import analyse


def test_the_summary_is_rows_a_table_can_print() -> None:
    rows = summary(
        analyse("import torch\nfrom torchvision.models import resnet50\nresnet50().cuda()\nbatch_size = 4\n")
    )
    shown = {row.what: row.value for row in rows}
    assert shown["model"] == "resnet50"
    assert shown["parameters"] == "25.6M"
    assert shown["needs a GPU"] == "yes"
    assert all(row.sure in ("high", "medium", "low") for row in rows)


def test_the_summary_says_numbers_in_units_people_use() -> None:
    script = "import torch\nfor step in range(600000):\n    loss.backward()\n"
    rows = {row.what: row for row in summary(analyse(script, name="t.py"))}
    assert rows["steps"].value == "600,000"
    assert rows["time"].value.endswith((" h)", " days)"))


@pytest.mark.parametrize(("devices", "machine"), [(1, "an A100"), (4, "4 A100s")])
def test_the_summary_says_on_which_gpus_its_hours_are_counted(devices: int, machine: str) -> None:
    script = (
        "import lightning as L, timm\nmodel = Lit(timm.create_model('resnet50'))\n"
        f"L.Trainer(max_steps=1000, accelerator='gpu', devices={devices}).fit(model)\n"
    )
    rows = {row.what: row for row in summary(analyse(script, name="t.py"))}
    assert rows[f"time on {machine}"].because.startswith("1,000 batches of 16")


def test_the_summary_begins_with_what_could_not_be_read() -> None:
    first = summary(analyse("import torch\nprint 'epoch'\n", name="old.py"))[0]
    assert (first.what, first.value, first.where) == ("not read", "does not parse as Python 3", "old.py:2")
    noise = b"\x00\xff" * 500
    for data in (noise, noise.decode("utf-8", "replace")):
        assert summary(analyse(data, name="x.py"))[0].value == "is a binary file"
