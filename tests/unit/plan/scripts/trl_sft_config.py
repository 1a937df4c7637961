import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

model_id = "Qwen/Qwen2.5-1.5B-Instruct"
output_dir = "qwen-support"


def as_messages(row):
    return {
        "messages": [
            {"role": "system", "content": "You answer tickets of a bicycle shop."},
            {"role": "user", "content": row["question"]},
            {"role": "assistant", "content": row["answer"]},
        ]
    }


def main():
    tokenizer = AutoTokenizer.from_pretrained(model_id)
    tickets = load_dataset("json", data_files="tickets.jsonl", split="train")
    tickets = tickets.map(as_messages, remove_columns=tickets.column_names)
    parts = tickets.train_test_split(test_size=0.05, seed=1)
    adapter = LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    args = SFTConfig(
        output_dir=output_dir,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        learning_rate=2e-4,
        lr_scheduler_type="cosine",
        bf16=True,
        max_length=2048,
        packing=True,
        logging_steps=10,
        save_strategy="steps",
        save_steps=100,
        dataloader_num_workers=2,
        model_init_kwargs={"torch_dtype": torch.bfloat16, "attn_implementation": "flash_attention_2"},
    )
    trainer = SFTTrainer(
        model=model_id,
        args=args,
        train_dataset=parts["train"],
        eval_dataset=parts["test"],
        processing_class=tokenizer,
        peft_config=adapter,
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))
    trainer.save_model()


if __name__ == "__main__":
    main()
