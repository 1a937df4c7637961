"""Read a training script without running it: what it trains, how much, and what would make it cheaper.

analysis = analyse(source, name="train.py", args=("--epochs", "3"), files={"config.yaml": text})
analysis.batch_size        # Found(value=64, file="train.py", line=12, confidence=0.95, ...)
analysis.lints             # what will cost money or lose work
analysis.characteristics   # duration, GPU memory, interruptible, ...
summary(analysis)          # rows for a table
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from anygpu.plan.analyse import (
    batches,
    configs,
    frameworks,
    inputs,
    model,
    numerics,
    parameters,
    resuming,
    saving,
    scale,
    schedule,
    source,
)
from anygpu.plan.analyse.code import Code, look
from anygpu.plan.analyse.facts import gather
from anygpu.plan.analyse.findings import Analysis, Found, Lint, Problem, WorkloadCharacteristics
from anygpu.plan.analyse.lints import lints as _lints
from anygpu.plan.analyse.options import collect
from anygpu.plan.analyse.source import Source
from anygpu.plan.analyse.summary import Row, summary
from anygpu.plan.analyse.workload import characteristics, peak_memory

__all__ = [
    "Analysis",
    "Found",
    "Lint",
    "Problem",
    "Row",
    "WorkloadCharacteristics",
    "analyse",
    "lints",
    "peak_memory",
    "summary",
]

OTHER_FILES = 12
OTHER_CHARS = 150_000
LESS_SURE = 0.6  # what is read from a broken or shortened file


def analyse(
    text: bytes | str,
    *,
    name: str = "train.py",
    args: Sequence[str] = (),
    files: Mapping[str, bytes | str] | None = None,
) -> Analysis:
    """What a script trains and needs. Nothing is run, nothing is opened, nothing is raised for bad input.

    `files` are other files of the working directory by their path: modules the script imports and
    configuration it reads are looked at too.
    """
    beside = files or {}
    main = source.read(name, text)
    sources = (main, *_imported(main, beside))
    facts = gather(sources)
    read_configs = [configs.leaves(n, beside[n]) for n in configs.used(facts, tuple(args), beside)]
    settings = collect(facts, tuple(args), [leaf for leaves, _ in read_configs for leaf in leaves])
    problems = [p for s in sources for p in s.problems] + [p for _, found in read_configs for p in found]
    read = _fields(look(facts, settings))
    read = replace(read, problems=tuple(problems))
    return read if main.whole else _less_sure(read)


def lints(analysis: Analysis) -> tuple[Lint, ...]:
    """What in the code will cost money or lose work, dearest first."""
    return analysis.lints


def _fields(code: Code) -> Analysis:
    named = model.model(code)
    data = inputs.dataset(code)
    read = Analysis(
        frameworks=frameworks.read(code),
        model=named,
        parameters=parameters.parameters(code, named),
        batch_size=batches.batch_size(code),
        accumulation=batches.accumulation(code),
        epochs=schedule.epochs(code),
        steps=schedule.steps(code),
        precision=numerics.precision(code),
        half_weights=numerics.half_weights(code),
        optimiser=numerics.optimiser(code),
        image_size=numerics.image_size(code),
        sequence_length=numerics.sequence_length(code),
        adapters=numerics.adapters(code),
        recomputes=numerics.recomputes(code),
        workers=inputs.workers(code),
        dataset=data,
        dataset_gb=inputs.size_gb(code, data),
        samples=inputs.samples(code, data),
        environment=frameworks.environment(code),
        multi_gpu=scale.multi_gpu(code),
        gpus=scale.gpus(code),
        divided=scale.divided(code),
        checkpointing=saving.checkpointing(code),
        checkpoint_every=saving.every(code),
        checkpoint_paths=saving.paths(code),
        resuming=resuming.resuming(code),
        needs_gpu=scale.needs_gpu(code),
    )
    read = replace(read, lints=_lints(code, read))
    return replace(read, characteristics=characteristics(read))


def _imported(main: Source, files: Mapping[str, bytes | str]) -> tuple[Source, ...]:
    """Modules of the working directory that the script imports, three steps deep, up to a size."""
    seen: dict[str, Source] = {}
    budget, waiting = OTHER_CHARS, [main]
    for _ in range(3):
        found = [n for s in waiting for n in _module_files(s, files) if n not in seen and n != main.name]
        waiting = []
        for n in dict.fromkeys(found):
            budget -= len(files[n])
            if budget < 0 or len(seen) >= OTHER_FILES:
                return tuple(seen.values())
            seen[n] = source.read(n, files[n])
            waiting.append(seen[n])
    return tuple(seen.values())


def _module_files(main: Source, files: Mapping[str, bytes | str]) -> list[str]:
    imports = gather([main]).modules
    tails = [module.replace(".", "/") for module, _, _ in imports]
    folder = str(PurePosixPath(main.name).parent)
    roots = {"", "src/", "" if folder == "." else folder + "/"}
    wanted = [root + tail + end for root in roots for tail in tails for end in (".py", "/__init__.py")]
    return [n for n in wanted if n in files]


def _less_sure(read: Analysis) -> Analysis:
    """The same, trusted less: parts of the file were not understood."""
    changed: dict[str, Any] = {}
    for name in Analysis.__slots__:
        value = getattr(read, name)
        if isinstance(value, Found):
            changed[name] = replace(value, confidence=value.confidence * LESS_SURE)
    return replace(read, **changed)
