from datasets import load_dataset
from torchvision.transforms import Compose, Normalize, RandomResizedCrop, ToTensor
from transformers import AutoImageProcessor, AutoModelForImageClassification, Trainer, TrainingArguments
import torch

model_checkpoint = "google/vit-base-patch16-224-in21k"
batch_size = 64

dataset = load_dataset("food101", split="train[:5000]").train_test_split(0.2)
processor = AutoImageProcessor.from_pretrained(model_checkpoint)
tf = Compose([RandomResizedCrop(224), ToTensor(), Normalize(processor.image_mean, processor.image_std)])
dataset = dataset.with_transform(lambda b: {"pixel_values": [tf(i) for i in b["image"]], "labels": b["label"]})


def collate(batch):
    return {
        "pixel_values": torch.stack([x["pixel_values"] for x in batch]),
        "labels": torch.tensor([x["labels"] for x in batch]),
    }


model = AutoModelForImageClassification.from_pretrained(model_checkpoint, num_labels=101)
args = TrainingArguments(
    output_dir="vit-food",
    remove_unused_columns=False,
    eval_strategy="steps",
    eval_steps=1,
    save_strategy="epoch",
    per_device_train_batch_size=batch_size,
    gradient_accumulation_steps=2,
    num_train_epochs=3,
    dataloader_num_workers=4,
    load_best_model_at_end=False,
)
Trainer(model, args, train_dataset=dataset["train"], eval_dataset=dataset["test"], data_collator=collate).train()
