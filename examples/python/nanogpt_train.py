"""Train a small GPT on the text at ANYGPU_DATASET. It resumes from its checkpoint on any machine."""

import os

from anygpu.trainers import get_trainer

trainer = get_trainer(
    "nanogpt",
    dataset_path=os.environ["ANYGPU_DATASET"],
    output_dir=os.environ.get("ANYGPU_OUTPUT_DIR", "outputs"),
    model="gpt-nano",
    epochs=int(os.environ.get("EPOCHS", "30")),
    batch_size=8,
    learning_rate=0.003,
)
result = trainer.train()
print(f"val_loss {result.metrics['val_loss']:.3f} after {result.epochs} epochs")
