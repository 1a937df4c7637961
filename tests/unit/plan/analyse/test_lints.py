"""What the lints say about a script, and when they say nothing."""

from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.script import analyse, lints

LOOP = """
for epoch in range(epochs):
    for x, y in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
"""


def codes(read: Analysis) -> set[str]:
    return {lint.code for lint in lints(read)}


def test_a_wasteful_script_gets_every_lint() -> None:
    text = f"""
import torch
from torch.utils.data import DataLoader
from torchvision.models import resnet50
def evaluate(model): pass
epochs = 3
loader = DataLoader(torch.load("/home/me/train.pt"), batch_size=8)
model = torch.nn.DataParallel(resnet50().cuda(), device_ids=[0, 1, 2, 3])
{LOOP}        evaluate(model)
torch.save(model.state_dict(), "/home/me/model.pt")
"""
    wanted = {
        "no-resume",
        "no-checkpoint",
        "checkpoint-outside",
        "absolute-path",
        "fixed-world-size",
        "no-amp",
    }
    read = analyse(text)
    assert codes(read) == wanted | {"no-workers", "eval-every-step"}
    assert all(lint.advice.endswith(".") and lint.message for lint in read.lints)


def test_a_script_on_the_cpu_is_not_told_how_to_save_gpu_money() -> None:
    text = "from sklearn.ensemble import RandomForestClassifier\nRandomForestClassifier(100).fit(X, y)\n"
    read = analyse(text)
    assert read.needs_gpu is not None
    assert not read.needs_gpu.value
    assert codes(read) == set()


def test_a_default_that_is_given_another_value_is_no_path_of_this_machine() -> None:
    text = "import torch\np.add_argument('--data', default='/scratch/data/x')\nmodel.cuda()\n"
    assert "absolute-path" in codes(analyse(text))
    assert "absolute-path" not in codes(analyse(text, args=("--data", "mine")))
