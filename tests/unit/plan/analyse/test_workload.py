"""Memory and duration are derived from the findings."""

import pytest

from anygpu.plan.analyse.script import analyse
from anygpu.plan.analyse.workload import peak_memory


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


def test_what_follows_from_a_broken_file_is_less_sure_too() -> None:
    text = "import torch\nfor epoch in range(3):\n  torch.save(model, 'a')\nopt.load_state_dict(state)\n"
    whole, broken = (analyse(text + end) for end in ("", "def broken(:\n"))
    for read in (whole, broken):
        assert read.characteristics is not None
        assert read.characteristics.interruptible.value
    assert whole.characteristics is not None
    assert broken.characteristics is not None
    assert broken.characteristics.interruptible.confidence < whole.characteristics.interruptible.confidence
    assert broken.frameworks[0].confidence < whole.frameworks[0].confidence


def test_going_on_is_no_surer_than_the_saves_it_goes_on_from() -> None:
    text = "import torch\nfrom engine import fit\np.add_argument('--resume', default='')\nfor epoch in range(9):\n"
    job = analyse(text + "  save_checkpoint(model)\n").characteristics
    assert job is not None
    assert job.interruptible.value
    assert job.interruptible.confidence_level == "medium"
