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
from anygpu.plan.analyse.facts import gather, imported
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
    code = look(facts, settings)
    read = _less_sure(_fields(code), sources)
    read = replace(read, lints=_lints(code, read), problems=tuple(problems))
    return replace(read, characteristics=characteristics(read))


def lints(analysis: Analysis) -> tuple[Lint, ...]:
    """What in the code will cost money or lose work, dearest first."""
    return analysis.lints


def _fields(code: Code) -> Analysis:
    named = model.model(code)
    data = inputs.dataset(code)
    return Analysis(
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
        dataset_gb=inputs.size_gb(data),
        samples=inputs.samples(data),
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
    tails = [module.replace(".", "/") for module in imported(main)]
    folder = str(PurePosixPath(main.name).parent)
    roots = dict.fromkeys(("" if folder == "." else folder + "/", "", "src/"))
    wanted = [root + tail + end for root in roots for tail in tails for end in (".py", "/__init__.py")]
    return [n for n in wanted if n in files]


def _less_sure(read: Analysis, sources: Sequence[Source]) -> Analysis:
    """What stands in a file that was not understood as a whole is trusted less; all of it, where that is the script."""
    broken = {source.name for source in sources if not source.whole}
    everything = not sources[0].whole

    def lowered(found: Any) -> Any:
        if isinstance(found, tuple):
            return tuple(map(lowered, found))
        unsure = isinstance(found, Found) and (everything or found.file in broken)
        return replace(found, confidence=found.confidence * LESS_SURE) if unsure else found

    return replace(read, **{name: lowered(getattr(read, name)) for name in Analysis.__slots__})
