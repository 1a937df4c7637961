"""Where a value comes from: command line, configuration, defaults, assignments; and what the lints say."""

import pytest

from anygpu.plan.analyse.findings import Analysis, summary
from anygpu.plan.analyse.script import analyse, lints
from anygpu.plan.analyse.workload import peak_memory

LOOP = """
for epoch in range(epochs):
    for x, y in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
"""


def batch(text: str, *args: str, **files: str) -> int | None:
    read = analyse("import torch\n" + text, args=args, files=files)
    return None if read.batch_size is None else read.batch_size.value


def codes(read: Analysis) -> set[str]:
    return {lint.code for lint in lints(read)}


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


def test_a_config_file_outranks_the_code_and_the_command_line_outranks_both() -> None:
    text = 'import torch, yaml\ncfg = yaml.safe_load(open("c.yaml"))\nDataLoader(d, batch_size=cfg["batch_size"])\n'
    files = {"c.yaml": "lr: 1e-3\nbatch_size: 11\n"}
    read = analyse(text, files=files)
    assert read.batch_size is not None
    assert (read.batch_size.value, read.batch_size.location) == (11, "c.yaml:2")
    told = analyse(text, files=files, args=("batch_size=4",)).batch_size
    assert told is not None
    assert (told.value, told.file) == (4, "command line")


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


def test_what_a_module_not_given_may_hold_is_denied_less_firmly() -> None:
    alone = analyse("import torch\nepochs = 3\n" + LOOP).resuming
    split = analyse("import torch\nfrom engine import run\nepochs = 3\n" + LOOP).resuming
    assert alone is not None
    assert split is not None
    assert split.confidence < alone.confidence


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("for epoch in range(1, 11): pass", 10),
        ("for epoch in tqdm(range(start_epoch, 30)): pass", 30),
        ("for iteration in range(50):\n    model.fit(x, y, epochs=2)", 100),
        ("trainer = pl.Trainer(max_epochs=7)", 7),
        ("pl.Trainer()", 1000),
    ],
)
def test_epochs_are_counted_as_they_run(text: str, epochs: int) -> None:
    read = analyse("import torch\nimport pytorch_lightning as pl\n" + text)
    assert read.epochs is not None
    assert read.epochs.value == epochs


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("with torch.autocast('cuda', dtype=torch.bfloat16): pass", "bf16"),
        ("with torch.cuda.amp.autocast(): pass", "fp16"),
        ("amp = False\nwith torch.cuda.amp.autocast(enabled=amp): pass", "fp32"),
        ("Accelerator(mixed_precision='bf16')", "bf16"),
        ("data = np.memmap('a.bin', dtype=np.uint16)", "fp32"),
        ("model = net.half()", "fp16"),
    ],
)
def test_the_precision_is_what_the_arithmetic_is_done_in(text: str, precision: str) -> None:
    read = analyse("import torch\n" + text)
    assert read.precision is not None
    assert read.precision.value == precision


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


def test_weights_loaded_in_16_bits_need_no_32_bit_copy() -> None:
    text = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2-xl"{dtype})
Trainer(model, TrainingArguments("out", bf16=True, per_device_train_batch_size=1)).train()
"""
    whole = peak_memory(analyse(text.replace("{dtype}", "")))
    half = peak_memory(analyse(text.replace("{dtype}", ", torch_dtype=torch.bfloat16")))
    assert whole is not None
    assert half is not None
    assert half.peak_gb < 0.7 * whole.peak_gb


def test_the_summary_is_rows_a_table_can_print() -> None:
    rows = summary(
        analyse("import torch\nfrom torchvision.models import resnet50\nresnet50().cuda()\nbatch_size = 4\n")
    )
    shown = {row.what: row.value for row in rows}
    assert shown["model"] == "resnet50"
    assert shown["parameters"] == "25.6M"
    assert shown["needs a GPU"] == "yes"
    assert all(row.sure in ("high", "medium", "low") for row in rows)


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


def test_what_stands_behind_an_option_that_is_off_is_not_done() -> None:
    text = (
        "import torch\np.add_argument('--fp16', action='store_true')\n"
        "if args.fp16:\n    net.half()\nelse:\n    net.float()\n"
    )
    off, on = analyse(text).precision, analyse(text, args=("--fp16",)).precision
    assert off is not None
    assert on is not None
    assert (off.value, on.value) == ("fp32", "fp16")


def test_going_over_a_rollout_several_times_is_no_epoch_of_the_training() -> None:
    text = (
        "import torch\nfor update in range(300):\n  for epoch in range(4):\n"
        "    for b in parts:\n      loss.backward()\n"
    )
    read = analyse(text)
    assert read.epochs is None
    assert read.steps is not None
    assert read.steps.value == 300


def test_steps_that_add_up_batches_take_longer() -> None:
    text = """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("out", max_steps=1000, gradient_accumulation_steps={n})).train()
"""
    once, often = (analyse(text.replace("{n}", n)).characteristics for n in ("1", "8"))
    assert once is not None
    assert often is not None
    assert often.duration_hours.value == pytest.approx(8 * once.duration_hours.value)


def test_a_detector_is_configured_in_python() -> None:
    text = (
        "from mmengine.config import Config\nfrom mmengine.runner import Runner\n"
        "Runner.from_cfg(Config.fromfile(a.c)).train()\n"
    )
    config = (
        '_base_ = "../_base_/models/retinanet_r50_fpn.py"\nroot = "data/cracks/"\n'
        "train_dataloader = dict(batch_size=3, num_workers=5, dataset=dict(data_root=root))\n"
        'train_cfg = dict(max_epochs=7)\noptim_wrapper = dict(type="AmpOptimWrapper")\n'
    )
    read = analyse(text, args=("c.py",), files={"c.py": config})
    found = (read.model, read.batch_size, read.workers, read.epochs, read.precision, read.dataset)
    values = [None if f is None else f.value for f in found]
    assert values == ["retinanet_r50_fpn", 3, 5, 7.0, "fp16", "data/cracks/"]
    assert read.batch_size is not None
    assert read.batch_size.location == "c.py:3"


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


def test_a_class_of_ones_own_that_loads_itself_is_the_model() -> None:
    text = "import torch\nfrom model import GPT\nmodel = GPT(conf)\nmodel = GPT.from_pretrained('scratch')\n"
    read = analyse(text)
    assert read.model is not None
    assert read.model.value == "GPT"


def test_a_default_that_is_given_another_value_is_no_path_of_this_machine() -> None:
    text = "import torch\np.add_argument('--data', default='/scratch/data/x')\nmodel.cuda()\n"
    assert "absolute-path" in codes(analyse(text))
    assert "absolute-path" not in codes(analyse(text, args=("--data", "mine")))


def test_a_device_chosen_by_a_flag_does_not_ask_for_the_cpu() -> None:
    text = "import torch\nema = Ema(model, device='cpu' if args.slow else '')\nmodel.cuda()\n"
    needs = analyse(text).needs_gpu
    assert needs is not None
    assert needs.value


def test_steps_on_the_command_line_overrule_the_default_of_the_epochs() -> None:
    text = (
        "import torch\np.add_argument('--max_train_steps', type=int)\n"
        "p.add_argument('--num_train_epochs', default=5)\nfor epoch in range(args.num_train_epochs): pass\n"
    )
    read = analyse(text, args=("--max_train_steps", "70"))
    assert read.epochs is None
    assert read.steps is not None
    assert read.steps.value == 70
    assert analyse(text).epochs is not None
