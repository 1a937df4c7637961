"""Whether the code resumes from a checkpoint, and how sure that is."""

import pytest

from anygpu.plan.analyse.script import analyse

LOOP = """
for epoch in range(epochs):
    for x, y in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
"""


def test_what_a_module_not_given_may_hold_is_denied_less_firmly() -> None:
    alone = analyse("import torch\nepochs = 3\n" + LOOP).resuming
    split = analyse("import torch\nfrom engine import run\nepochs = 3\n" + LOOP).resuming
    assert alone is not None
    assert split is not None
    assert split.confidence < alone.confidence


@pytest.mark.parametrize(
    ("text", "resumes"),
    [
        ("state = torch.load(p)\noptimizer.load_state_dict(state['opt'])", True),
        ("snapshot = torch.load(p)\nfirst = snapshot['epoch']", True),
        ("model.load_state_dict(torch.load('pretrained.pth'))", False),
        ("trainer.fit(m, ckpt_path=None)", False),
        ("trainer.train(resume_from_checkpoint=True)", True),
        ("parser.add_argument('--resume', default='')", True),
        ("import anygpu\npath = anygpu.resume_path()", True),
    ],
)
def test_loading_weights_is_not_yet_resuming(text: str, resumes: bool) -> None:
    read = analyse("import torch\n" + text)
    assert read.resuming is not None
    assert read.resuming.value is resumes
