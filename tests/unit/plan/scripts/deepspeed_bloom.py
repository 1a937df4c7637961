import argparse
import json

import deepspeed
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="bigscience/bloom-560m")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--load_dir", default=None)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()

ds_config = {
    "train_micro_batch_size_per_gpu": 6,
    "gradient_accumulation_steps": 4,
    "fp16": {"enabled": True},
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
}
tokenizer = AutoTokenizer.from_pretrained(args.model)
model = AutoModelForCausalLM.from_pretrained(args.model)
data = load_dataset("c4", "en", split="train")
engine, optimizer, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=data, config=ds_config
)
start = 0
if args.load_dir:
    _, client = engine.load_checkpoint(args.load_dir)
    start = client["step"]
for epoch in range(args.epochs):
    for step, batch in enumerate(loader):
        loss = engine(batch["input_ids"].to(engine.device), labels=batch["input_ids"]).loss
        engine.backward(loss)
        engine.step()
        if step % 500 == 0:
            engine.save_checkpoint("ckpts", client_state={"step": step})
