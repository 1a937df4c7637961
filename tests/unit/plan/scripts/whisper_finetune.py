from dataclasses import dataclass
from typing import Any

import evaluate
from datasets import Audio, DatasetDict, load_dataset
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperForConditionalGeneration,
    WhisperProcessor,
)

LANGUAGE = "Welsh"
CHECKPOINT = "openai/whisper-small"

processor = WhisperProcessor.from_pretrained(CHECKPOINT, language=LANGUAGE, task="transcribe")
model = WhisperForConditionalGeneration.from_pretrained(CHECKPOINT)
model.config.forced_decoder_ids = None
model.config.use_cache = False

voices = DatasetDict()
voices["train"] = load_dataset("mozilla-foundation/common_voice_11_0", "cy", split="train+validation")
voices["test"] = load_dataset("mozilla-foundation/common_voice_11_0", "cy", split="test")
voices = voices.select_columns(["audio", "sentence"]).cast_column("audio", Audio(sampling_rate=16_000))


def prepare(row):
    audio = row["audio"]
    row["input_features"] = processor.feature_extractor(audio["array"], sampling_rate=16_000).input_features[0]
    row["labels"] = processor.tokenizer(row["sentence"]).input_ids
    return row


voices = voices.map(prepare, remove_columns=["audio", "sentence"], num_proc=4)
wer = evaluate.load("wer")


@dataclass
class Collate:
    processor: Any

    def __call__(self, rows):
        batch = self.processor.feature_extractor.pad(
            [{"input_features": r["input_features"]} for r in rows], return_tensors="pt"
        )
        labels = self.processor.tokenizer.pad([{"input_ids": r["labels"]} for r in rows], return_tensors="pt")
        batch["labels"] = labels["input_ids"].masked_fill(labels.attention_mask.ne(1), -100)
        return batch


def score(pred):
    ids = pred.label_ids
    ids[ids == -100] = processor.tokenizer.pad_token_id
    said = processor.batch_decode(pred.predictions, skip_special_tokens=True)
    meant = processor.batch_decode(ids, skip_special_tokens=True)
    return {"wer": 100 * wer.compute(predictions=said, references=meant)}


plan = Seq2SeqTrainingArguments(
    "whisper-cy",
    max_steps=6000,
    per_device_train_batch_size=12,
    gradient_accumulation_steps=2,
    per_device_eval_batch_size=12,
    learning_rate=8e-6,
    warmup_ratio=0.1,
    gradient_checkpointing=True,
    fp16=True,
    eval_strategy="steps",
    eval_steps=750,
    save_steps=750,
    save_total_limit=2,
    predict_with_generate=True,
    generation_max_length=200,
    metric_for_best_model="wer",
    greater_is_better=False,
    load_best_model_at_end=True,
)
trainer = Seq2SeqTrainer(
    args=plan,
    model=model,
    train_dataset=voices["train"],
    eval_dataset=voices["test"],
    data_collator=Collate(processor),
    compute_metrics=score,
    processing_class=processor.feature_extractor,
)
trainer.train()
trainer.save_model("whisper-small-cy/final")
