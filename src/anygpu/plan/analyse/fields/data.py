"""Find the data set, its size, the number of data loader workers, and paths of a single machine."""

import ast
import re
from collections.abc import Iterator

from anygpu.plan.analyse.code.syntax import CallSite, normalise_name
from anygpu.plan.analyse.code.training_code import Code, count_finding, framework_default
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.fields import public_datasets
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, CodeFinding

_WORKER_NAMES = (
    "num_workers",
    "workers",
    "n_workers",
    "dataloader_num_workers",
    "n_worker",
    "num_worker",
    "workers_per_gpu",
)
_HAVE_WORKERS = ("torch", "timm", "detectron2", "mmengine", "mmcv", "lightning", "pytorch_lightning")
_NAMED = ("load_dataset", "load", "builder", "get_dataset")
_TABLES = ("read_csv", "read_parquet", "read_table", "read_json", "read_excel", "read_feather", "read_pickle")
_FILES = ("memmap", "fromfile", "load_npz", "load_svmlight_file", "loadtxt", "genfromtxt", "load_from_disk")
_FOLDERS = (
    "ImageFolder",
    "DatasetFolder",
    "image_dataset_from_directory",
    "flow_from_directory",
    "from_folder",
)
_DATA_NAMES = (
    "data_dir",
    "dataset",
    "dataset_name",
    "data_path",
    "train_data",
    "train_file",
    "data_root",
    "data",
    "root",
    "train_data_dir",
    "instance_data_dir",
    "train_dir",
)
_PATH = re.compile(r"^(/|~|[A-Za-z]:[\\/])[\w.~-]")
_DATA_FILE = re.compile(r"(?i)data|train|\.np[yz]$|\.h5$")
_COLLECTIONS = ("torchvision.datasets.", "torchaudio.datasets.", "torchtext.datasets.")
_TEXT_FILE = re.compile(r"(?i)\.(txt|jsonl|bin|tsv|gz|bz2|xz|zst)$")
_SYSTEM = ("/dev/", "/proc/", "/sys/", "/usr/", "/bin/", "/etc/")


def workers(code: Code) -> CodeFinding[int] | None:
    """Return the number of worker processes of the data loader."""
    for call in code.hf_arguments:
        given = count_finding(code.argument_value(call, "dataloader_num_workers"), at_least=0)
        return given or framework_default(call, 0, "the default of TrainingArguments")
    parsed = code.hf_parser
    if parsed is not None:
        given = count_finding(code.settings.configured("dataloader_num_workers"), at_least=0)
        return given or framework_default(parsed, 0, "the default of TrainingArguments")
    for call in code.yolo_trainings:
        return count_finding(code.argument_value(call, "workers"), at_least=0) or framework_default(
            call, 8, "ultralytics' default"
        )
    loaders = [c for c in code.facts.calls if _is_loader(c)]
    for call in loaders:
        finding = count_finding(code.argument_value(call, "num_workers"), at_least=0)
        if finding is not None:
            return finding
    silent = [c for c in loaders if not c.has("num_workers") and not c.spreads]
    if silent:
        return framework_default(silent[0], 0, "the default of DataLoader")
    setting = code.settings.find(*_WORKER_NAMES)
    return count_finding(setting, at_least=0, confidence=LIKELY) if code.imports(*_HAVE_WORKERS) else None


def _is_loader(call: CallSite) -> bool:
    """Return whether a call creates a data loader.

    Examples: DataLoader, NeighborLoader, WebLoader, timm's create_loader.
    """
    kin = call.short_name.endswith("Loader") and call.has("num_workers")
    return kin or call.short_name.endswith("DataLoader") or call.short_name == "create_loader"


def _active_calls(code: Code, *lasts: str) -> Iterator[CallSite]:
    """Return the calls that are run with these options. Leaves out those for another choice, such as of `--dataset`."""
    calls = code.facts.calls_of(*lasts) if lasts else code.facts.calls
    return (call for call in calls if not code.is_skipped(call))


def dataset(code: Code) -> CodeFinding[str] | None:
    """Return the name of a public data set, or the path that the code reads."""
    for reader in _READERS:
        finding = reader(code)
        if finding is not None:
            return finding
    return None


def _dataset_class(code: Code) -> CodeFinding[str] | None:
    """Find a public data set that the code loads by a class or function of a library.

    Examples: `torchvision.datasets.CIFAR10(...)`, `keras.datasets.mnist.load_data()`, scikit-learn's
    `load_digits()`.
    """
    for call in _active_calls(code):
        for word in (call.short_name, call.base.rpartition(".")[2]):
            word = re.sub(r"^(load|fetch)_", "", word)
            data = "dataset" in call.name.lower() or "load_data" in call.short_name or "datasets" in call.name
            if public_datasets.find_dataset(word) and (data or word[:1].isupper()):
                return CodeFinding(
                    value=public_datasets.dataset_key(word), file=call.file, line=call.line, confidence=SURE
                )
    return None


def _loaded_by_name(code: Code) -> CodeFinding[str] | None:
    for call in _active_calls(code, *_NAMED):
        setting = code.argument_value(call, "path", "name", "dataset_name", position=0)
        from_library = call.name.startswith(("datasets.", "tensorflow_datasets.", "tfds."))
        if (
            setting is None
            or not isinstance(setting.value, str)
            or not (from_library or public_datasets.find_dataset(setting.value))
        ):
            continue
        return _named_dataset(code, call, setting)
    return None


def _in_collection(code: Code) -> CodeFinding[str] | None:
    """Find a data set that the code chooses by name from a collection, such as `Planetoid(root, name="Cora")`."""
    for call in _active_calls(code):
        if ".datasets." not in call.name:
            continue
        for node in [call.argument("name"), *call.node.args]:
            setting = code.settings.evaluate_text(node)
            if setting is not None and public_datasets.find_dataset(str(setting.value)):
                return CodeFinding(
                    value=str(setting.value), file=setting.file, line=setting.line, confidence=LIKELY
                )
    return None


def _named_dataset(code: Code, call: CallSite, setting: Value) -> CodeFinding[str]:
    """Return the data set of a `load_dataset` call.

    `load_dataset("glue", "sst2")` loads glue/sst2; `load_dataset("csv", data_files=...)` loads the given
    file.
    """
    name = str(setting.value)
    files = code.settings.evaluate_text(call.argument("data_files", "data_dir"))
    if files is not None and name in ("csv", "json", "text", "parquet", "imagefolder", "arrow"):
        return CodeFinding(
            value=str(files.value), file=call.file, line=call.line, confidence=files.confidence
        )
    part = code.settings.evaluate_text(call.argument("name", position=1))
    full = f"{name}/{part.value}" if part is not None else name
    return CodeFinding(
        value=full,
        file=setting.file,
        line=setting.line,
        confidence=setting.confidence,
        because=setting.because,
    )


def _yolo_data(code: Code) -> CodeFinding[str] | None:
    for call in code.yolo_trainings:
        setting = code.settings.evaluate_text(call.argument("data"))
        if setting is not None:
            return CodeFinding(
                value=str(setting.value), file=setting.file, line=setting.line, confidence=setting.confidence
            )
    return None


def _paths(code: Code) -> CodeFinding[str] | None:
    for call in _active_calls(code, *_FOLDERS, *_TABLES, *_FILES):
        if "Config" in call.base:
            continue
        setting = code.argument_value(call, "root", "directory", "path", "filepath_or_buffer", position=0)
        if setting is None or not isinstance(setting.value, str):
            setting = _joined_path(code, call)
        path = _known_part(setting.value) if setting is not None and isinstance(setting.value, str) else ""
        if setting is not None and path:
            return CodeFinding(
                value=path, file=setting.file, line=setting.line, confidence=setting.confidence
            )
    return _tensor_file(code)


def _known_part(path: str) -> str:
    """Return a path up to its first component that is known only at run time (`{}`); else the whole path."""
    return path.partition("{}")[0].rstrip("/") if "{}" in path else path


def _tensor_file(code: Code) -> CodeFinding[str] | None:
    """Find a data file that is loaded as tensors, such as by `torch.load("data/train.pt")`."""
    for call in _active_calls(code, "load"):
        setting = code.settings.evaluate_text(call.argument("f", "file", position=0))
        if setting is not None and _DATA_FILE.search(str(setting.value)):
            return CodeFinding(
                value=str(setting.value), file=setting.file, line=setting.line, confidence=GUESS
            )
    return None


def _joined_path(code: Code, call: CallSite) -> Value | None:
    """Return the components that are known of a path such as `os.path.join(root, "train")`, joined."""
    node = call.argument("root", "directory", position=0)
    if not isinstance(node, ast.Call):
        return None
    known = [
        setting
        for setting in (code.settings.evaluate_text(part) for part in node.args)
        if setting is not None
    ]
    if not known:
        return None
    joined = "/".join(str(setting.value).rstrip("/") for setting in known)
    return Value(joined, known[0].file, known[0].line, LIKELY)


def _detectron_dataset(code: Code) -> CodeFinding[str] | None:
    """Find the data set in detectron2's `cfg.DATASETS.TRAIN = ("name",)`."""
    for bound in code.facts.bindings.get("datasets.train", ()):
        first = (
            bound.node.elts[0]
            if isinstance(bound.node, ast.Tuple | ast.List) and bound.node.elts
            else bound.node
        )
        setting = code.settings.evaluate_text(first)
        if setting is not None:
            return CodeFinding(
                value=str(setting.value), file=setting.file, line=setting.line, confidence=LIKELY
            )
    return None


def _named_setting(code: Code) -> CodeFinding[str] | None:
    for name in _DATA_NAMES:
        setting = code.settings.find(name)
        known = setting is not None and isinstance(setting.value, str) and "${" not in setting.value
        if setting is not None and known and setting.value not in ("", "auto"):
            return CodeFinding(
                value=str(setting.value), file=setting.file, line=setting.line, confidence=GUESS
            )
    return None


def _library_dataset(code: Code) -> CodeFinding[str] | None:
    """Find a data set by a class of a library: `WebDataset(urls)`, `torchaudio.datasets.LJSPEECH(root)`."""
    for call in _active_calls(code):
        if call.name.startswith(_COLLECTIONS) and call.short_name[:1].isupper():
            return CodeFinding(
                value=public_datasets.dataset_key(call.short_name),
                file=call.file,
                line=call.line,
                confidence=LIKELY,
            )
        if (
            not call.short_name.endswith("Dataset")
            or call.short_name in code.facts.classes
            or "." not in call.name
        ):
            continue
        setting = code.settings.evaluate_text(call.argument("name", "urls", "path", "repo_id", position=0))
        setting = setting or code.settings.evaluate_text(call.argument("root"))
        if setting is not None and setting.value:
            return CodeFinding(
                value=str(setting.value), file=setting.file, line=setting.line, confidence=LIKELY
            )
    return None


def _text_file(code: Code) -> CodeFinding[str] | None:
    """Find a text file that is read, such as by `open("input.txt").read()` or `Path(corpus).read_text()`."""
    for call in code.facts.calls_of("read_text", "open"):
        node = call.argument("file", position=0)
        if call.short_name == "read_text" and isinstance(call.node.func, ast.Attribute):
            node = call.node.func.value
        setting = code.settings.evaluate_text(node)
        if setting is not None and _TEXT_FILE.search(str(setting.value)):
            return CodeFinding(
                value=str(setting.value), file=setting.file, line=setting.line, confidence=GUESS
            )
    return None


_READERS = (
    _dataset_class,
    _loaded_by_name,
    _in_collection,
    _yolo_data,
    _paths,
    _library_dataset,
    _detectron_dataset,
    _text_file,
    _named_setting,
)


def dataset_gb(name: CodeFinding[str] | None) -> CodeFinding[float] | None:
    """Return the size of a public data set in GB, downloaded and unpacked; None if it is unknown."""
    row = public_datasets.find_dataset(name.value) if name is not None else None
    if name is None or row is None:
        return None
    because = f"known size of the public data set {name.value}"
    return CodeFinding(
        value=row.gb, file=name.file, line=name.line, confidence=name.confidence, because=because
    )


def dataset_samples(name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    row = public_datasets.find_dataset(name.value) if name is not None else None
    if name is None or row is None:
        return None
    return CodeFinding(value=row.samples, file=name.file, line=name.line, confidence=name.confidence)


def absolute_paths(code: Code) -> Iterator[CodeFinding[str]]:
    """Yield absolute paths in the code or on the command line, which may exist on the user's machine only."""
    seen: set[str] = set()
    overruled = _overridden_defaults(code)
    for source in code.facts.sources:
        for node in ast.walk(source.tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in overruled else None
            if isinstance(text, str) and _is_machine_path(text) and text not in seen:
                seen.add(text)
                yield CodeFinding(
                    value=text, file=source.name, line=getattr(node, "lineno", 0), confidence=SURE
                )
    for setting in code.settings.command_line.values():
        if isinstance(setting.value, str) and _is_machine_path(setting.value) and setting.value not in seen:
            seen.add(setting.value)
            yield CodeFinding(value=setting.value, file=setting.file, line=setting.line, confidence=SURE)


def _overridden_defaults(code: Code) -> set[int]:
    """Return the ids of the syntax nodes of option defaults that the command line overrides."""
    offered = (call for call in code.facts.calls_of("add_argument") if call.has("default"))
    return {
        id(call.argument("default"))
        for call in offered
        for word in call.node.args
        if isinstance(word, ast.Constant) and normalise_name(str(word.value)) in code.settings.command_line
    }


def _is_machine_path(text: str) -> bool:
    return bool(_PATH.match(text)) and "\n" not in text and " " not in text and not text.startswith(_SYSTEM)
