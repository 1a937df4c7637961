import os

from datasets import load_dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

MODEL_NAME = os.environ.get("MODEL_NAME", "google/flan-t5-base")
EPOCHS = int(os.environ.get("EPOCHS", "4"))
BATCH = int(os.getenv("BATCH", 8))

tokenizer = AutoTokenizer.from_pretrained(MODEL_NAME)
model = AutoModelForSeq2SeqLM.from_pretrained(MODEL_NAME)
data = load_dataset("samsum")
args = Seq2SeqTrainingArguments(
    output_dir="/opt/ml/model",
    per_device_train_batch_size=BATCH,
    num_train_epochs=EPOCHS,
    predict_with_generate=True,
    bf16=True,
    save_strategy="no",
)
trainer = Seq2SeqTrainer(
    model=model,
    args=args,
    train_dataset=data["train"],
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
)
trainer.train()
trainer.save_model()
