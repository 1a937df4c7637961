"""The data set is what the code reads."""

import pytest

from anygpu.plan.analyse.script import analyse


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("import webdataset as wds\nwds.WebDataset('s3://b/{000..099}.tar')", "s3://b/{000..099}.tar"),
        ("text = open('input.txt').read()", "input.txt"),
        ("from pathlib import Path\ntext = Path('tales.txt').read_text()", "tales.txt"),
        ("open('log.json', 'w').write('x')", None),
    ],
)
def test_the_data_is_what_the_code_reads(text: str, data: str | None) -> None:
    read = analyse("import torch\n" + text)
    assert (None if read.dataset is None else read.dataset.value) == data
