"""Analyse a training script without running it: what it trains, how long, and what wastes money.

analysis = analyse(source, name="train.py", args=("--epochs", "3"), files={"config.yaml": text})
analysis.batch_size        # CodeFinding(value=64, file="train.py", line=12, confidence=0.95, ...)
analysis.lints             # code that wastes money or can lose work
analysis.characteristics   # duration, GPU memory, interruptible, ...
summary(analysis)          # rows for a table
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from anygpu.plan.analyse.code import config_files, source, training_code
from anygpu.plan.analyse.code.options import collect_settings
from anygpu.plan.analyse.code.source import SourceFile
from anygpu.plan.analyse.code.syntax import gather_facts, imported_modules
from anygpu.plan.analyse.code.training_code import Code, read_code
from anygpu.plan.analyse.fields import batches, checkpoints, devices
from anygpu.plan.analyse.fields import data as inputs
from anygpu.plan.analyse.fields import duration as schedule
from anygpu.plan.analyse.fields import precision as numerics
from anygpu.plan.analyse.fields.resuming import find_resuming
from anygpu.plan.analyse.findings import (
    Analysis,
    CodeFinding,
    Lint,
)
from anygpu.plan.analyse.fixes import with_fixes
from anygpu.plan.analyse.lints import find_lints as _lints
from anygpu.plan.analyse.network import model, model_size
from anygpu.plan.analyse.workload import characteristics

OTHER_FILES = 12
OTHER_CHARS = 150_000
LESS_SURE = 0.6  # factor on the confidence of findings in a broken or truncated file


def analyse(
    text: bytes | str,
    *,
    name: str = "train.py",
    args: Sequence[str] = (),
    files: Mapping[str, bytes | str] | None = None,
) -> Analysis:
    """Return what a script trains and needs, without running the script. Invalid input raises no error.

    `files` has the other files of the working directory by path. Those that the script imports or names as
    configuration are analysed too.
    """
    other_files = files or {}
    main = source.read_source(name, text)
    sources = (main, *_imported(main, other_files))
    facts = gather_facts(sources)
    read_configs = [
        config_files.read_config(n, other_files[n])
        for n in config_files.find_config_files(facts, tuple(args), other_files)
    ]
    settings = collect_settings(facts, tuple(args), [leaf for leaves, _ in read_configs for leaf in leaves])
    problems = [p for s in sources for p in s.problems] + [p for _, finding in read_configs for p in finding]
    code = read_code(facts, settings)
    read = _less_sure(_fields(code), sources)
    read = replace(read, lints=with_fixes(_lints(code, read), code), problems=tuple(problems))
    return replace(read, characteristics=characteristics(read))


def lints(analysis: Analysis) -> tuple[Lint, ...]:
    """Return the places in the code that waste money or can lose work, most expensive first."""
    return analysis.lints


def _fields(code: Code) -> Analysis:
    named = model.find_model_name(code)
    data = inputs.dataset(code)
    return Analysis(
        frameworks=training_code.find_frameworks(code),
        model=named,
        parameters=model_size.count_parameters(code, named),
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
        dataset_gb=inputs.dataset_gb(data),
        samples=inputs.dataset_samples(data),
        environment=training_code.find_environment(code),
        multi_gpu=devices.multi_gpu(code),
        gpus=devices.gpus(code),
        split_across_gpus=devices.split_across_gpus(code),
        checkpointing=checkpoints.checkpointing(code),
        checkpoint_every=checkpoints.checkpoint_every(code),
        checkpoint_paths=checkpoints.checkpoint_paths(code),
        resuming=find_resuming(code),
        needs_gpu=devices.needs_gpu(code),
    )


def _imported(main: SourceFile, files: Mapping[str, bytes | str]) -> tuple[SourceFile, ...]:
    """Return the files among `files` that the script imports, directly or indirectly.

    Imports are followed three levels deep, up to a number of files and a total size.
    """
    seen: dict[str, SourceFile] = {}
    budget, waiting = OTHER_CHARS, [main]
    for _ in range(3):
        finding = [n for s in waiting for n in _module_files(s, files) if n not in seen and n != main.name]
        waiting = []
        for n in dict.fromkeys(finding):
            budget -= len(files[n])
            if budget < 0 or len(seen) >= OTHER_FILES:
                return tuple(seen.values())
            seen[n] = source.read_source(n, files[n])
            waiting.append(seen[n])
    return tuple(seen.values())


def _module_files(main: SourceFile, files: Mapping[str, bytes | str]) -> list[str]:
    tails = [module.replace(".", "/") for module in imported_modules(main)]
    folder = str(PurePosixPath(main.name).parent)
    roots = dict.fromkeys(("" if folder == "." else folder + "/", "", "src/"))
    wanted = [root + tail + end for root in roots for tail in tails for end in (".py", "/__init__.py")]
    return [n for n in wanted if n in files]


def _less_sure(read: Analysis, sources: Sequence[SourceFile]) -> Analysis:
    """Return the findings with lower confidence if they come from files that could not be parsed completely.

    If the script itself is such a file, the confidence of all values is lowered.
    """
    broken = {source.name for source in sources if not source.whole}
    everything = not sources[0].whole

    def lowered(finding: Any) -> Any:
        if isinstance(finding, tuple):
            return tuple(map(lowered, finding))
        unsure = isinstance(finding, CodeFinding) and (everything or finding.file in broken)
        return replace(finding, confidence=finding.confidence * LESS_SURE) if unsure else finding

    return replace(read, **{name: lowered(getattr(read, name)) for name in Analysis.__slots__})
