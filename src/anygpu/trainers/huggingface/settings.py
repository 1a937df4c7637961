"""Settings of the `huggingface` trainer and their checks. Nothing here imports transformers."""

from __future__ import annotations

from anygpu.trainers.config import Accepts, TrainingConfig
from anygpu.trainers.errors import BadConfig

TEXT, LANGUAGE, IMAGE = "text-classification", "causal-lm", "image-classification"
TASKS = (TEXT, LANGUAGE, IMAGE)
# Options passed to transformers.TrainingArguments under the same name.
ARGUMENTS = (
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "warmup_steps",
    "lr_scheduler_kwargs",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
    "label_smoothing_factor",
    "neftune_noise_alpha",
    "torch_compile",
    "optim_args",
    "optim_target_modules",
    "fp16",
    "bf16",
    "tf32",
    "per_device_eval_batch_size",
    "full_determinism",
)
OURS = (
    "text_column",
    "label_column",
    "tokenizer",  # characters, bpe, or a folder or hub name with a tokenizer
    "vocab_size",
    "max_length",  # largest number of tokens of a text to classify
    "block_size",  # context length of a language model, in tokens
    "model_config",  # config values of a model trained from scratch
    "log_every",  # steps between reported losses
)
OPTIMIZERS = {
    "adamw": "adamw_torch",
    "adamw_torch": "adamw_torch",
    "adamw_fused": "adamw_torch_fused",
    "adafactor": "adafactor",
    "sgd": "sgd",
    "adagrad": "adagrad",
    "rmsprop": "rmsprop",
}
SCHEDULERS = (
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "inverse_sqrt",
)
ACCEPTS = Accepts(
    tasks=TASKS,
    options=frozenset({*ARGUMENTS, *OURS}),
    optimizers=tuple(OPTIMIZERS),
    schedulers=SCHEDULERS,
    exports=("onnx", "safetensors"),
    defaults={"task": TEXT, "optimizer": "adamw", "scheduler": "linear", "export": ("onnx", "safetensors")},
)
DEVICES = ("auto", "cpu", "cuda", "mps")
COUNTS = ("vocab_size", "max_length", "block_size", "log_every", "gradient_accumulation_steps")


def check(config: TrainingConfig) -> None:
    """Raise BadConfig that lists all invalid settings."""
    trouble = [
        f"{name}: {config.options[name]!r} is not a whole number above 0"
        for name in COUNTS
        if name in config.options and not _is_count(config.options[name])
    ]
    if config.device not in DEVICES:
        devices = ", ".join(DEVICES)
        trouble.append(
            f"device: {config.device!r} is not one of {devices}; to choose a GPU, set CUDA_VISIBLE_DEVICES"
        )
    if not isinstance(config.option("model_config", {}), dict):
        trouble.append(
            f"model_config: {config.option('model_config')!r} is not a mapping, such as {{hidden_size: 64}}"
        )
    if trouble:
        raise BadConfig("\n".join(trouble))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
