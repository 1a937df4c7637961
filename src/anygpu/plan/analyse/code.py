"""The code as the readers of single fields see it, and who owns its training loop."""

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from anygpu.plan.analyse import conditions
from anygpu.plan.analyse.facts import Call, Facts
from anygpu.plan.analyse.findings import GUESS, Found
from anygpu.plan.analyse.packages import KNOWN_PACKAGES
from anygpu.plan.analyse.settings import Settings, Value

T = TypeVar("T")

MOST = 1e15  # who writes more means: until it is stopped

_HF_ARGUMENTS = ("TrainingArguments", "TrainingArgs")
_HF_CONFIGS = ("SFTConfig", "DPOConfig", "GRPOConfig", "ORPOConfig", "RewardConfig", "PPOConfig", "KTOConfig")
_LOOPS = ("Trainer", "Fabric", "LightningCLI")
_FROM_ARGUMENTS = "Trainer.from_argparse_args"
_LIGHTNING = ("pytorch_lightning", "lightning", "lightning_fabric")


@dataclass(slots=True)
class Code:
    """Facts and settings together."""

    facts: Facts
    settings: Settings
    hf: list[Call] = field(default_factory=list)
    lightning: list[Call] = field(default_factory=list)
    yolo: list[Call] = field(default_factory=list)
    fits: list[Call] = field(default_factory=list)

    def value(self, call: Call, *names: str, position: int | None = None) -> Value | None:
        """What an argument of a call comes to."""
        found = self.settings.of(call.argument(*names, position=position))
        if found is None or found.value is None:
            found = self._spread(call, names)
        return found

    def _spread(self, call: Call, names: tuple[str, ...]) -> Value | None:
        if call.spreads and not call.has(*names):
            return self.settings.named(*names)
        return None

    @property
    def uses_hf(self) -> bool:
        named = any(
            dotted.endswith(_HF_ARGUMENTS)
            and dotted.startswith(("transformers", "trl", "sentence_transformers"))
            for dotted in self.facts.imports.values()
        )
        return bool(self.hf) or named or self.hf_parser is not None

    @property
    def hf_parser(self) -> Call | None:
        """HfArgumentParser((..., TrainingArguments)): the command line makes them, no call in the code does."""
        for call in self.facts.calls_of("HfArgumentParser"):
            if re.search(r"Training_?Arg|SFTConfig|DPOConfig|GRPOConfig", ast.unparse(call.node)):
                return call
        return None

    def has(self, *roots: str) -> bool:
        return self.facts.imports_any(*roots) is not None

    def passed_over(self, call: Call) -> bool:
        """Whether it stands behind an option that is off: `if args.fp16: model.half()`."""
        flags = (test for test in call.around.branches if isinstance(test, ast.Name | ast.Attribute))
        told = (self.settings.of(flag) for flag in flags)
        is_false = any(flag is not None and flag.value is False for flag in told)
        return is_false or conditions.off(self.settings, call.around.branches)

    @property
    def unseen(self) -> bool:
        """Whether it imports modules of its own that were not given."""
        paths = [PurePosixPath(source.name).with_suffix("") for source in self.facts.sources]
        given = {part for path in paths for part in _spellings(path)}
        own = {
            module
            for module, _, _ in self.facts.modules
            if module.partition(".")[0] not in KNOWN_PACKAGES | sys.stdlib_module_names
        }
        return bool(own - given)


def _spellings(path: PurePosixPath) -> list[str]:
    """How a module may be imported: src/net/parts.py as src.net.parts, net.parts or parts."""
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    return [".".join(parts[at:]) for at in range(len(parts))]


def look(facts: Facts, settings: Settings) -> Code:
    code = Code(facts, settings)
    for call in facts.calls:
        if call.last.endswith(_HF_ARGUMENTS) or call.last in _HF_CONFIGS:
            code.hf.append(call)
        elif call.name.startswith(_LIGHTNING) and (
            call.last in _LOOPS or call.name.endswith(_FROM_ARGUMENTS)
        ):
            code.lightning.append(call)
        elif call.last == "train" and _on_yolo(facts, call):
            code.yolo.append(call)
        elif call.last in ("fit", "fit_generator"):
            code.fits.append(call)
    code.yolo.sort(key=lambda call: call.has("resume") and not call.has("data"))
    return code


def _on_yolo(facts: Facts, call: Call) -> bool:
    made = facts.maker(call) or call.base.removesuffix("()")
    return made.rpartition(".")[2] in ("YOLO", "RTDETR", "YOLOWorld", "FastSAM", "NAS", "YOLOE")


def whole(value: Value | None, *, at_least: int = 1, confidence: float | None = None) -> Found[int] | None:
    """A count, or nothing when it is none (a batch size of -1 means: find out)."""
    number = value.value if value is not None else None
    if isinstance(number, str):
        number = _digits(number)
    if value is None or isinstance(number, bool) or not isinstance(number, int | float) or number < at_least:
        return None
    if number > MOST:
        return None
    sure = value.confidence if confidence is None else min(confidence, value.confidence)
    return Found(value=int(number), file=value.file, line=value.line, confidence=sure, because=value.because)


def _digits(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 15 else None


def default(call: Call, value: T, because: str) -> Found[T]:
    """A framework's own default, which holds when the call says nothing."""
    return Found(value=value, file=call.file, line=call.line, confidence=GUESS, because=because)
