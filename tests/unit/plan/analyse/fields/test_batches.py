"""The batch size is found however the code says it, for one device and one step."""

import pytest

from anygpu.plan.analyse.script import analyse


def batch(text: str, *args: str, **files: str) -> int | None:
    read = analyse("import torch\n" + text, args=args, files=files)
    return None if read.batch_size is None else read.batch_size.value


@pytest.mark.parametrize(
    ("text", "args", "value"),
    [
        ("batch_size = 8 * 4", (), 32),
        ("p.add_argument('--batch-size', '-b', type=int, default=64)", (), 64),
        ("p.add_argument('--batch-size', '-b', type=int, default=64)", ("-b", "7"), 7),
        ("p.add_argument('--batch-size', type=int, default=64)", ("--batch-size=9",), 9),
        ("p.add_argument('--bs', dest='batch_size', default='16', type=int)", (), 16),
        ("p.add_argument('data')\np.add_argument('batch_size', type=int)", ("imgs", "12"), 12),
        ("p.add_argument('--amp', action='store_true')\np.add_argument('batch_size')", ("--amp", "5"), 5),
        ("import click\n@click.option('--batch-size', default=24)\ndef main(batch_size): pass", (), 24),
        ("flags.DEFINE_integer('batch_size', 40, 'help')", (), 40),
        ("flags.DEFINE_integer('batch_size', default=41, help='')", (), 41),
        (
            "p.add_argument('-b', '--batch-size', dest='bsz', default=2)\nf(batch_size=opt.bsz)",
            ("-b", "3"),
            3,
        ),
        ("T = {'s': dict(batch_size=5), 'l': dict(batch_size=50)}\nsize = 'l'\nuse(**T[size])", (), 50),
        (
            "cfg.data.batch_size = 8\ncfg.data.batch_size = args.bs\nDataLoader(d, cfg.data.batch_size)",
            ("--bs=2",),
            2,
        ),
        ("def main(batch_size=48): pass", (), 48),
        ("class CFG:\n    batch_size = 20\nDataLoader(d, batch_size=CFG.batch_size)", (), 20),
        ("cfg = {'train': {'batch_size': 6}}\nDataLoader(d, cfg['train']['batch_size'])", (), 6),
        ("bs = int(os.environ.get('BS', '28'))\nDataLoader(d, batch_size=bs)", (), 28),
        ("per_gpu = 4\nDataLoader(d, batch_size=per_gpu * 2 if True else 1)", (), 8),
        ("DataLoader(val, batch_size=100)\ntrain_loader = DataLoader(train, batch_size=10)", (), 10),
        ("batch_size = 8", ("train.batch_size=3",), 3),
        ("DataLoader(d)", (), 1),
        ("model.fit(x, y, batch_size=n)", (), None),
    ],
)
def test_a_batch_size_is_found_however_it_is_said(
    text: str, args: tuple[str, ...], value: int | None
) -> None:
    assert batch(text, *args) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("import tensorflow as tf\nb = 8 * strategy.num_replicas_in_sync\nds.batch(b)", 8),
        ("DataLoader(d, batch_size=64 // dist.get_world_size())", 64),
        ("batch_size = envs * steps\nminibatch_size = 256 // 4", 64),
    ],
)
def test_the_batch_is_that_of_one_device_and_one_step(text: str, value: int) -> None:
    assert batch(text) == value
