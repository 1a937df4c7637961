import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from transformers import AutoTokenizer, LlamaForCausalLM
from datasets import load_dataset

MODEL_ID = "meta-llama/Meta-Llama-3-8B"
MICRO_BATCH = 2
MAX_STEPS = 5000
SEQ_LEN = 2048


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    tokenizer = AutoTokenizer.from_pretrained(MODEL_ID)
    model = LlamaForCausalLM.from_pretrained(MODEL_ID, torch_dtype=torch.bfloat16)
    model.gradient_checkpointing_enable()
    bf16 = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    model = FSDP(model, mixed_precision=bf16, device_id=rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    data = load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft")
    loader = DataLoader(data, batch_size=MICRO_BATCH, sampler=DistributedSampler(data), num_workers=2)
    step = 0
    while step < MAX_STEPS:
        for batch in loader:
            loss = model(**batch, labels=batch["input_ids"]).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step >= MAX_STEPS:
                break
    state = model.state_dict()
    if rank == 0:
        torch.save(state, "final.pt")


if __name__ == "__main__":
    main()
