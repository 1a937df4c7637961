"""The user's code prepared for analysis: its syntax, settings, frameworks, and calls that train."""

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from anygpu.plan.analyse.code import conditions
from anygpu.plan.analyse.code.syntax import CallSite, SyntaxFacts
from anygpu.plan.analyse.code.values import ScriptSettings, Value
from anygpu.plan.analyse.findings import GUESS, SURE, CodeFinding

# Package -> common name of the framework. Packages without training (numpy, pandas) are not listed.
PACKAGES = {
    "torch": "pytorch",
    "pytorch_lightning": "lightning",
    "lightning": "lightning",
    "lightning_fabric": "lightning",
    "transformers": "transformers",
    "trl": "trl",
    "peft": "peft",
    "accelerate": "accelerate",
    "diffusers": "diffusers",
    "sentence_transformers": "sentence-transformers",
    "timm": "timm",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "torch_geometric": "pyg",
    "dgl": "dgl",
    "ultralytics": "ultralytics",
    "detectron2": "detectron2",
    "mmcv": "openmmlab",
    "mmengine": "openmmlab",
    "mmdet": "openmmlab",
    "mmseg": "openmmlab",
    "fastai": "fastai",
    "monai": "monai",
    "segmentation_models_pytorch": "smp",
    "deepspeed": "deepspeed",
    "horovod": "horovod",
    "composer": "composer",
    "ignite": "ignite",
    "unsloth": "unsloth",
    "stable_baselines3": "stable-baselines3",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "tf_keras": "keras",
    "keras_cv": "keras",
    "keras_hub": "keras",
    "jax": "jax",
    "flax": "flax",
    "optax": "optax",
    "haiku": "haiku",
    "equinox": "equinox",
    "paddle": "paddle",
    "mxnet": "mxnet",
    "theano": "theano",
    "caffe": "caffe",
    "chainer": "chainer",
    "rfdetr": "rfdetr",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "cuml": "cuml",
    "gensim": "gensim",
    "spacy": "spacy",
}
_HELPER_PACKAGES = """
PIL absl albumentations anygpu apex aim attr attrs bitsandbytes boto3 cPickle click clearml comet_ml cv2 datasets
dill dotenv einops ema_pytorch evaluate faiss fire flash_attn fsspec gcsfs gym gymnasium h5py huggingface_hub hydra
imageio imblearn imgaug ipywidgets IPython joblib jsonargparse kornia librosa loguru lpips matplotlib ml_collections
mlflow mpi4py ml_dtypes neptune nltk numpy omegaconf onnx onnxruntime open_clip optuna orbax pandas piq plotly polars
prettytable psutil pyarrow pycocotools pydantic pynvml ray regex requests rich s3fs sacrebleu safetensors scipy seaborn
sentencepiece shap simple_parsing six skimage skorch soundfile tabulate tensorboard tensorboardX tensorflow_addons
tensorflow_datasets tensorflow_hub tensorflow_text termcolor tifffile tiktoken tokenizers toml torch_xla torchdata
torcheval torchinfo torchmetrics torchsummary torchtext tqdm typer tyro typing_extensions ujson visdom wandb webdataset
yacs yaml xformers evotorch lmdb natsort pytz cycler efficientnet_pytorch pytorch_metric_learning
"""
KNOWN_PACKAGES = frozenset(PACKAGES) | frozenset(_HELPER_PACKAGES.split())

T = TypeVar("T")

MAX_COUNT = 1e15  # larger numbers mean: until stopped

_HF_ARGUMENTS = ("TrainingArguments", "TrainingArgs")
_HF_CONFIGS = ("SFTConfig", "DPOConfig", "GRPOConfig", "ORPOConfig", "RewardConfig", "PPOConfig", "KTOConfig")
_LOOPS = ("Trainer", "Fabric", "LightningCLI")
_FROM_ARGUMENTS = "Trainer.from_argparse_args"
_LIGHTNING = ("pytorch_lightning", "lightning", "lightning_fabric")


@dataclass(slots=True)
class Code:
    """The syntax and settings of a script, and the calls by which common frameworks train."""

    facts: SyntaxFacts
    settings: ScriptSettings
    hf_arguments: list[CallSite] = field(default_factory=list)
    lightning_trainers: list[CallSite] = field(default_factory=list)
    yolo_trainings: list[CallSite] = field(default_factory=list)
    fit_calls: list[CallSite] = field(default_factory=list)

    def argument_value(self, call: CallSite, *names: str, position: int | None = None) -> Value | None:
        """Return the value of an argument of a call; None if it is missing or unknown."""
        result = self.settings.evaluate(call.argument(*names, position=position))
        if result is None or result.value is None:
            result = self._spread_value(call, names)
        return result

    def _spread_value(self, call: CallSite, names: tuple[str, ...]) -> Value | None:
        if call.spreads and not call.has(*names):
            return self.settings.find(*names)
        return None

    @property
    def uses_hf(self) -> bool:
        named = any(
            dotted.endswith(_HF_ARGUMENTS)
            and dotted.startswith(("transformers", "trl", "sentence_transformers"))
            for dotted in self.facts.imports.values()
        )
        return bool(self.hf_arguments) or named or self.hf_parser is not None

    @property
    def hf_parser(self) -> CallSite | None:
        """The call of `HfArgumentParser` for TrainingArguments; None if there is none.

        With such a parser, the arguments are created from the command line and not by a call in the code.
        """
        for call in self.facts.calls_of("HfArgumentParser"):
            if re.search(r"Training_?Arg|SFTConfig|DPOConfig|GRPOConfig", ast.unparse(call.node)):
                return call
        return None

    def imports(self, *roots: str) -> bool:
        return self.facts.imports_any(*roots) is not None

    def is_skipped(self, call: CallSite) -> bool:
        """Return whether the call is in a branch that is not taken, as in `if args.fp16:` without --fp16."""
        flags = (test for test in call.context.branches if isinstance(test, ast.Name | ast.Attribute))
        told = (self.settings.evaluate(flag) for flag in flags)
        is_false = any(flag is not None and flag.value is False for flag in told)
        return is_false or conditions.is_disabled(self.settings, call.context.branches)

    @property
    def has_unseen_modules(self) -> bool:
        """Whether the code imports modules of its own project that were not among the given files."""
        paths = [PurePosixPath(source.name).with_suffix("") for source in self.facts.sources]
        provided = {part for path in paths for part in _module_names(path)}
        own = {
            module
            for module, _, _ in self.facts.modules
            if module.partition(".")[0] not in KNOWN_PACKAGES | sys.stdlib_module_names
        }
        return bool(own - provided)


def _module_names(path: PurePosixPath) -> list[str]:
    """Return all names by which a file may be imported.

    `src/net/parts.py` may be imported as `src.net.parts`, `net.parts` or `parts`.
    """
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    return [".".join(parts[at:]) for at in range(len(parts))]


def read_code(facts: SyntaxFacts, settings: ScriptSettings) -> Code:
    code = Code(facts, settings)
    for call in facts.calls:
        if call.short_name.endswith(_HF_ARGUMENTS) or call.short_name in _HF_CONFIGS:
            code.hf_arguments.append(call)
        elif call.name.startswith(_LIGHTNING) and (
            call.short_name in _LOOPS or call.name.endswith(_FROM_ARGUMENTS)
        ):
            code.lightning_trainers.append(call)
        elif call.short_name == "train" and _is_yolo(facts, call):
            code.yolo_trainings.append(call)
        elif call.short_name in ("fit", "fit_generator"):
            code.fit_calls.append(call)
    code.yolo_trainings.sort(key=lambda call: call.has("resume") and not call.has("data"))
    return code


def _is_yolo(facts: SyntaxFacts, call: CallSite) -> bool:
    made = facts.maker_of(call) or call.base.removesuffix("()")
    return made.rpartition(".")[2] in ("YOLO", "RTDETR", "YOLOWorld", "FastSAM", "NAS", "YOLOE")


def count_finding(
    value: Value | None, *, at_least: int = 1, confidence: float | None = None
) -> CodeFinding[int] | None:
    """Return a value as a whole number with its location in the code; None if it is not a valid count.

    For example, a batch size of -1 is not: it means that the framework chooses the batch size.
    """
    number = value.value if value is not None else None
    if isinstance(number, str):
        number = _digits(number)
    if value is None or isinstance(number, bool) or not isinstance(number, int | float) or number < at_least:
        return None
    if number > MAX_COUNT:
        return None
    sure = value.confidence if confidence is None else min(confidence, value.confidence)
    return CodeFinding(
        value=int(number), file=value.file, line=value.line, confidence=sure, because=value.because
    )


def _digits(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 15 else None


def framework_default(call: CallSite, value: T, because: str) -> CodeFinding[T]:
    """Return the framework's default value, located at a call that does not set the value itself."""
    return CodeFinding(value=value, file=call.file, line=call.line, confidence=GUESS, because=because)


def reachable_functions(facts: SyntaxFacts) -> set[tuple[str, str]]:
    """Return file and name of each function that the script calls directly or indirectly."""
    homes = _files_by_function(facts)
    by_place: dict[tuple[str, str], list[CallSite]] = {}
    for call in facts.calls:
        by_place.setdefault((call.file, call.context.function), []).append(call)
    first = facts.sources[0].name if facts.sources else ""
    waiting = [position for position in by_place if position[0] == first or not position[1]]
    result = set(waiting)
    while waiting:
        for call in by_place.get(waiting.pop(), ()):
            files = homes.get(call.short_name, set())
            for file in {call.file} & files or files:
                if (file, call.short_name) not in result:
                    result.add((file, call.short_name))
                    waiting.append((file, call.short_name))
    return result


def _files_by_function(facts: SyntaxFacts) -> dict[str, set[str]]:
    """Return for each function name the files that define such a function."""
    homes: dict[str, set[str]] = {}
    for name, file in facts.function_files:
        homes.setdefault(name, set()).add(file)
    return homes


def unreachable_calls(facts: SyntaxFacts) -> list[CallSite]:
    """Return the calls inside functions that the script never calls, directly or indirectly."""
    if len(facts.sources) < 2:
        return []
    reachable = reachable_functions(facts)
    return [
        call
        for call in facts.calls
        if call.context.function
        and not call.context.owner
        and (call.file, call.context.function) not in reachable
    ]


DEEP_FRAMEWORKS = frozenset(PACKAGES.values()) - {
    "scikit-learn",
    "xgboost",
    "lightgbm",
    "catboost",
    "gensim",
    "cuml",
}
ENVIRONMENTS = frozenset(
    {"gym", "gymnasium", "pettingzoo", "dm_control", "envpool", "procgen", "minigrid", "brax"}
)
TREE_FRAMEWORKS = frozenset({"xgboost", "lightgbm", "catboost"})


def find_frameworks(code: Code) -> tuple[CodeFinding[str], ...]:
    result: dict[str, CodeFinding[str]] = {}
    for module, file, line in code.facts.modules:
        if (file, line) in code.facts.lazy_imports and file != code.facts.sources[0].name:
            continue  # a helper that may never run: GPT.from_pretrained() of a file beside the script
        name = PACKAGES.get(module.partition(".")[0])
        if name and name not in result:
            result[name] = CodeFinding(
                value=name, file=file, line=line, confidence=SURE, because=f"imports {module}"
            )
        if module.startswith(("tensorflow.keras", "tensorflow.python.keras")):
            result.setdefault(
                "keras", CodeFinding(value="keras", file=file, line=line, because=f"imports {module}")
            )
    for call in code.facts.calls:
        if call.name.startswith("tensorflow.keras."):
            result.setdefault(
                "keras", CodeFinding(value="keras", file=call.file, line=call.line, because=call.name)
            )
    return _training_only(result)


def find_environment(code: Code) -> CodeFinding[str] | None:
    """Return the package of the reinforcement learning environment that the code uses; None if none."""
    for module, file, line in code.facts.modules:
        name = module.partition(".")[0]
        if name in ENVIRONMENTS:
            return CodeFinding(value=name, file=file, line=line, confidence=SURE, because=f"imports {module}")
    return None


def _training_only(result: dict[str, CodeFinding[str]]) -> tuple[CodeFinding[str], ...]:
    """Return the frameworks that train the model: without scikit-learn if there is another one.

    In that case, scikit-learn is usually used only to split data and to compute scores.
    """
    trains = [f for f in result.values() if f.value != "scikit-learn"]
    kept = (
        trains
        if any(f.value in DEEP_FRAMEWORKS or f.value in TREE_FRAMEWORKS for f in trains)
        else list(result.values())
    )
    return tuple(sorted(kept, key=lambda f: f.value))
