import math
import os

import bitsandbytes as bnb
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    DataCollatorForLanguageModeling,
    get_linear_schedule_with_warmup,
)

BASE = os.environ.get("BASE_MODEL", "mistralai/Mistral-7B-v0.1")
MAX_LEN = 1024
BATCH = 2
ACCUM = 8
EPOCHS = 2
SAVE_DIR = "/workspace/adapters"

quant = BitsAndBytesConfig(
    load_in_4bit=True,
    bnb_4bit_quant_type="nf4",
    bnb_4bit_compute_dtype=torch.bfloat16,
    bnb_4bit_use_double_quant=True,
)
tok = AutoTokenizer.from_pretrained(BASE)
tok.pad_token = tok.eos_token
model = AutoModelForCausalLM.from_pretrained(BASE, quantization_config=quant, device_map={"": 0})
model.gradient_checkpointing_enable()
model = prepare_model_for_kbit_training(model)
model = get_peft_model(
    model,
    LoraConfig(r=32, lora_alpha=64, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM"),
)
model.print_trainable_parameters()


def to_ids(row):
    text = f"### Question:\n{row['instruction']}\n### Answer:\n{row['response']}"
    return tok(text, truncation=True, max_length=MAX_LEN)


train_set = load_dataset("databricks/databricks-dolly-15k", split="train")
train_set = train_set.map(to_ids, remove_columns=train_set.column_names)
loader = DataLoader(
    train_set,
    batch_size=BATCH,
    shuffle=True,
    collate_fn=DataCollatorForLanguageModeling(tok, mlm=False),
    num_workers=2,
)
optim = bnb.optim.PagedAdamW8bit(model.parameters(), lr=2e-4)
updates = math.ceil(len(loader) / ACCUM) * EPOCHS
sched = get_linear_schedule_with_warmup(optim, 50, updates)

model.train()
for epoch in range(EPOCHS):
    for i, batch in enumerate(loader):
        batch = {k: v.cuda() for k, v in batch.items()}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch).loss / ACCUM
        loss.backward()
        if (i + 1) % ACCUM == 0:
            optim.step()
            sched.step()
            optim.zero_grad(set_to_none=True)
        if i % 500 == 0:
            print(epoch, i, loss.item() * ACCUM)
    model.save_pretrained(os.path.join(SAVE_DIR, f"epoch{epoch}"))
