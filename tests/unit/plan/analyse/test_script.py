"""Modules of the working directory are read with the script."""

from anygpu.plan.analyse.script import analyse


def test_modules_of_the_working_directory_are_read_too() -> None:
    network = (
        "from torch import nn\nclass Net(nn.Module):\n  def __init__(self):\n    self.a = nn.Linear(10, 20)\n"
    )
    read = analyse(
        "import torch\nfrom models.net import Net\nmodel = Net()\n", files={"models/net.py": network}
    )
    assert read.model is not None
    assert read.model.value == "Net"
    assert read.parameters is not None
    assert read.parameters.value == 220
    assert read.parameters.file == "models/net.py"


def test_of_two_modules_of_one_name_the_one_beside_the_script_is_read_first() -> None:
    files = {
        "src/sizes.py": "batch_size = 1\n",
        "sizes.py": "batch_size = 2\n",
        "jobs/sizes.py": "batch_size = 3\n",
    }
    found = analyse(
        "import torch\nfrom sizes import batch_size\n", name="jobs/train.py", files=files
    ).batch_size
    assert found is not None
    assert (found.value, found.file) == (3, "jobs/sizes.py")
