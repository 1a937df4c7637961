import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

MODEL = "meta-llama/Llama-2-7b-hf"

bnb = BitsAndBytesConfig(
    load_in_4bit=True,
    bnb_4bit_quant_type="nf4",
    bnb_4bit_compute_dtype=torch.bfloat16,
)
model = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=bnb, device_map="auto")
tokenizer = AutoTokenizer.from_pretrained(MODEL)
dataset = load_dataset("tatsu-lab/alpaca", split="train")

peft_config = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
args = SFTConfig(
    output_dir="./llama-alpaca",
    max_steps=1000,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    gradient_checkpointing=True,
    learning_rate=2e-4,
    optim="paged_adamw_8bit",
    bf16=True,
    max_seq_length=1024,
    save_steps=200,
    logging_steps=10,
)
trainer = SFTTrainer(model=model, args=args, train_dataset=dataset, peft_config=peft_config)
trainer.train(resume_from_checkpoint=True)
trainer.save_model()
