"""Published times of whole trainings beside what the planner says of a script that does the same."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.unit.plan.analyse.scoring import SCRIPTS

from anygpu.events.offers import Offer
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.script import analyse
from anygpu.plan.offers.bill import Span
from anygpu.plan.offers.estimate import Estimator
from anygpu.spec.load import from_mapping

TABLE = Path(__file__).parent.parent / "published_training.json"
HOUR_S = 3600
CODE = {
    "imagenet": """
import torch, torchvision
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
data = torchvision.datasets.ImageNet("imagenet", transform=torchvision.transforms.RandomResizedCrop(224))
loader = torch.utils.data.DataLoader(data, batch_size=256, num_workers=8)
for epoch in range(90):
    for x, y in loader:
        AUTOCAST
        model(x).sum().backward()
""",
    "squad": """
from datasets import load_dataset
from transformers import AutoModelForQuestionAnswering, Trainer, TrainingArguments
data = load_dataset("squad").map(lambda x: tokenizer(x, max_length=384, truncation=True, padding="max_length"))
model = AutoModelForQuestionAnswering.from_pretrained("bert-base-uncased")
args = TrainingArguments("out", per_device_train_batch_size=32, num_train_epochs=2, fp16=True)
Trainer(model, args, train_dataset=data).train()
""",
    "yolo": """
from ultralytics import YOLO
YOLO("MODEL.pt").train(data="coco.yaml", epochs=300, imgsz=640, batch=NUMBER)
""",
    "detectron2": """
from detectron2 import model_zoo
from detectron2.config import get_cfg
from detectron2.engine import DefaultTrainer
cfg = get_cfg()
cfg.merge_from_file(model_zoo.get_config_file("COCO-Detection/faster_rcnn_R_50_FPN_3x.yaml"))
cfg.SOLVER.IMS_PER_BATCH = 2
cfg.SOLVER.MAX_ITER = 10000
DefaultTrainer(cfg).train()
""",
    "lora": """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("MODEL", torch_dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=8))
data = data.map(lambda x: tokenizer(x, max_length=1024, truncation=True))
args = TrainingArguments("out", per_device_train_batch_size=1, max_steps=10000, bf16=True)
Trainer(model, args, train_dataset=data).train()
""",
}
AUTOCAST = "scaler = torch.cuda.amp.GradScaler(); torch.autocast('cuda', dtype=torch.float16)"


@dataclass(frozen=True)
class Training:
    """One published training, and the seconds predicted for it."""

    name: str
    machine: str
    as_published: str
    hours: float
    predicted_s: Span
    source: str

    @property
    def times(self) -> float:
        """Predicted over published."""
        return self.predicted_s.expected / HOUR_S / self.hours

    @property
    def inside(self) -> bool:
        return self.predicted_s.low <= self.hours * HOUR_S <= self.predicted_s.high


@lru_cache(maxsize=1)
def trainings() -> tuple[Training, ...]:
    return tuple(_training(row) for row in json.loads(TABLE.read_text()))


def _training(row: dict[str, Any]) -> Training:
    gpus = row.get("gpus", 1)
    offer = Offer(backend="ec2", gpu_kind=row["gpu"], gpu_count=gpus)
    question = Estimator(spec=from_mapping({"script": "train.py"}), analysis=_read(row))
    return Training(
        name=row["name"],
        machine=f"{gpus} x {row['gpu']}" if gpus > 1 else row["gpu"],
        as_published=row["as_published"],
        hours=row["hours"],
        predicted_s=question.predict_duration(offer).training_s,
        source=row["source"],
    )


def _read(row: dict[str, Any]) -> Analysis:
    if "script" in row:
        beside = {path.name: path.read_bytes() for path in SCRIPTS.glob("*.py")}
        return analyse(beside[f"{row['script']}.py"], args=row["args"], files=beside)
    text = CODE[row["code"]].replace("AUTOCAST", AUTOCAST if row.get("amp") else "pass")
    return analyse(text.replace("MODEL", row.get("model", "")).replace("NUMBER", str(row.get("batch", ""))))
