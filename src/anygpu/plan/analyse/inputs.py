"""What it reads: the data loader's workers, the data set, its size, and paths of one machine."""

import ast
import re
from collections.abc import Iterator

from anygpu.plan.analyse import datasets
from anygpu.plan.analyse.code import Code, default, whole
from anygpu.plan.analyse.facts import Call, normal
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Found
from anygpu.plan.analyse.settings import Value

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


def workers(code: Code) -> Found[int] | None:
    """Processes that load data beside the training."""
    for call in code.hf:
        given = whole(code.value(call, "dataloader_num_workers"), at_least=0)
        return given or default(call, 0, "the default of TrainingArguments")
    parsed = code.hf_parser
    if parsed is not None:
        given = whole(code.settings.told("dataloader_num_workers"), at_least=0)
        return given or default(parsed, 0, "the default of TrainingArguments")
    for call in code.yolo:
        return whole(code.value(call, "workers"), at_least=0) or default(call, 8, "ultralytics' default")
    loaders = [c for c in code.facts.calls if _loads(c)]
    for call in loaders:
        found = whole(code.value(call, "num_workers"), at_least=0)
        if found is not None:
            return found
    silent = [c for c in loaders if not c.has("num_workers") and not c.spreads]
    if silent:
        return default(silent[0], 0, "the default of DataLoader")
    told = code.settings.named(*_WORKER_NAMES)
    return whole(told, at_least=0, confidence=LIKELY) if code.has(*_HAVE_WORKERS) else None


def _loads(call: Call) -> bool:
    """DataLoader and its kin: NeighborLoader, WebLoader, timm's create_loader."""
    kin = call.last.endswith("Loader") and call.has("num_workers")
    return kin or call.last.endswith("DataLoader") or call.last == "create_loader"


def _reached(code: Code, *lasts: str) -> Iterator[Call]:
    """Calls that are not behind a choice of another data set."""
    calls = code.facts.calls_of(*lasts) if lasts else code.facts.calls
    return (call for call in calls if not code.passed_over(call))


def dataset(code: Code) -> Found[str] | None:
    """The name of a public data set, or the path the code reads."""
    for reader in _READERS:
        found = reader(code)
        if found is not None:
            return found
    return None


def _known_class(code: Code) -> Found[str] | None:
    """torchvision.datasets.CIFAR10(...), keras.datasets.mnist.load_data(), sklearn's load_digits()."""
    for call in _reached(code):
        for word in (call.last, call.base.rpartition(".")[2]):
            word = re.sub(r"^(load|fetch)_", "", word)
            data = "dataset" in call.name.lower() or "load_data" in call.last or "datasets" in call.name
            if datasets.known(word) and (data or word[:1].isupper()):
                return Found(value=datasets.spelled(word), file=call.file, line=call.line, confidence=SURE)
    return None


def _by_name(code: Code) -> Found[str] | None:
    for call in _reached(code, *_NAMED):
        told = code.value(call, "path", "name", "dataset_name", position=0)
        from_library = call.name.startswith(("datasets.", "tensorflow_datasets.", "tfds."))
        if (
            told is None
            or not isinstance(told.value, str)
            or not (from_library or datasets.known(told.value))
        ):
            continue
        return _named(code, call, told)
    return None


def _in_collection(code: Code) -> Found[str] | None:
    """Planetoid(root, name="Cora"): a collection of data sets, one of them by name."""
    for call in _reached(code):
        if ".datasets." not in call.name:
            continue
        for node in [call.argument("name"), *call.node.args]:
            told = code.settings.text(node)
            if told is not None and datasets.known(str(told.value)):
                return Found(value=str(told.value), file=told.file, line=told.line, confidence=LIKELY)
    return None


def _named(code: Code, call: Call, told: Value) -> Found[str]:
    """load_dataset("glue", "sst2") is glue/sst2; load_dataset("csv", data_files=...) is its file."""
    name = str(told.value)
    files = code.settings.text(call.argument("data_files", "data_dir"))
    if files is not None and name in ("csv", "json", "text", "parquet", "imagefolder", "arrow"):
        return Found(value=str(files.value), file=call.file, line=call.line, confidence=files.confidence)
    part = code.settings.text(call.argument("name", position=1))
    full = f"{name}/{part.value}" if part is not None else name
    return Found(value=full, file=told.file, line=told.line, confidence=told.confidence, because=told.because)


def _yolo_data(code: Code) -> Found[str] | None:
    for call in code.yolo:
        told = code.settings.text(call.argument("data"))
        if told is not None:
            return Found(value=str(told.value), file=told.file, line=told.line, confidence=told.confidence)
    return None


def _paths(code: Code) -> Found[str] | None:
    for call in _reached(code, *_FOLDERS, *_TABLES, *_FILES):
        if "Config" in call.base:
            continue
        told = code.value(call, "root", "directory", "path", "filepath_or_buffer", position=0)
        if told is None or not isinstance(told.value, str):
            told = _inside(code, call)
        path = _known_part(told.value) if told is not None and isinstance(told.value, str) else ""
        if told is not None and path:
            return Found(value=path, file=told.file, line=told.line, confidence=told.confidence)
    return _loaded(code)


def _known_part(path: str) -> str:
    """Up to the first part that is only known when it runs."""
    return path.partition("{}")[0].rstrip("/") if "{}" in path else path


def _loaded(code: Code) -> Found[str] | None:
    """torch.load("data/train.pt"): tensors kept in a file."""
    for call in _reached(code, "load"):
        told = code.settings.text(call.argument("f", "file", position=0))
        if told is not None and _DATA_FILE.search(str(told.value)):
            return Found(value=str(told.value), file=told.file, line=told.line, confidence=GUESS)
    return None


def _inside(code: Code, call: Call) -> Value | None:
    """os.path.join(root, "train"): the longest part that is known."""
    node = call.argument("root", "directory", position=0)
    if not isinstance(node, ast.Call):
        return None
    known = [told for told in (code.settings.text(part) for part in node.args) if told is not None]
    if not known:
        return None
    joined = "/".join(str(told.value).rstrip("/") for told in known)
    return Value(joined, known[0].file, known[0].line, LIKELY)


def _registered(code: Code) -> Found[str] | None:
    """detectron2's cfg.DATASETS.TRAIN = ("name",)."""
    for bound in code.facts.assigned.get("datasets.train", ()):
        first = (
            bound.node.elts[0]
            if isinstance(bound.node, ast.Tuple | ast.List) and bound.node.elts
            else bound.node
        )
        told = code.settings.text(first)
        if told is not None:
            return Found(value=str(told.value), file=told.file, line=told.line, confidence=LIKELY)
    return None


def _named_setting(code: Code) -> Found[str] | None:
    for name in _DATA_NAMES:
        told = code.settings.named(name)
        known = told is not None and isinstance(told.value, str) and "${" not in told.value
        if told is not None and known and told.value not in ("", "auto"):
            return Found(value=str(told.value), file=told.file, line=told.line, confidence=GUESS)
    return None


def _of_a_library(code: Code) -> Found[str] | None:
    """WebDataset(urls), PygNodePropPredDataset("ogbn-products"), torchaudio.datasets.LJSPEECH(root)."""
    for call in _reached(code):
        if call.name.startswith(_COLLECTIONS) and call.last[:1].isupper():
            return Found(value=datasets.spelled(call.last), file=call.file, line=call.line, confidence=LIKELY)
        if not call.last.endswith("Dataset") or call.last in code.facts.classes or "." not in call.name:
            continue
        told = code.settings.text(call.argument("name", "urls", "path", "repo_id", position=0))
        told = told or code.settings.text(call.argument("root"))
        if told is not None and told.value:
            return Found(value=str(told.value), file=told.file, line=told.line, confidence=LIKELY)
    return None


def _text_file(code: Code) -> Found[str] | None:
    """open("input.txt").read() and Path(corpus).read_text()."""
    for call in code.facts.calls_of("read_text", "open"):
        node = call.argument("file", position=0)
        if call.last == "read_text" and isinstance(call.node.func, ast.Attribute):
            node = call.node.func.value
        told = code.settings.text(node)
        if told is not None and _TEXT_FILE.search(str(told.value)):
            return Found(value=str(told.value), file=told.file, line=told.line, confidence=GUESS)
    return None


_READERS = (
    _known_class,
    _by_name,
    _in_collection,
    _yolo_data,
    _paths,
    _of_a_library,
    _registered,
    _text_file,
    _named_setting,
)


def size_gb(name: Found[str] | None) -> Found[float] | None:
    """Of a public data set: as downloaded and unpacked."""
    row = datasets.known(name.value) if name is not None else None
    if name is None or row is None:
        return None
    because = f"{name.value} is known"
    return Found(value=row.gb, file=name.file, line=name.line, confidence=name.confidence, because=because)


def samples(name: Found[str] | None) -> Found[int] | None:
    row = datasets.known(name.value) if name is not None else None
    if name is None or row is None:
        return None
    return Found(value=row.samples, file=name.file, line=name.line, confidence=name.confidence)


def absolute_paths(code: Code) -> Iterator[Found[str]]:
    """Paths that exist on one machine only, as written in the code or given as defaults."""
    seen: set[str] = set()
    overruled = _overruled(code)
    for source in code.facts.sources:
        for node in ast.walk(source.tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in overruled else None
            if isinstance(text, str) and _is_machine_path(text) and text not in seen:
                seen.add(text)
                yield Found(value=text, file=source.name, line=getattr(node, "lineno", 0), confidence=SURE)
    for told in code.settings.given.values():
        if isinstance(told.value, str) and _is_machine_path(told.value) and told.value not in seen:
            seen.add(told.value)
            yield Found(value=told.value, file=told.file, line=told.line, confidence=SURE)


def _overruled(code: Code) -> set[int]:
    """Defaults of options that are given."""
    offered = (call for call in code.facts.calls_of("add_argument") if call.has("default"))
    return {
        id(call.argument("default"))
        for call in offered
        for word in call.node.args
        if isinstance(word, ast.Constant) and normal(str(word.value)) in code.settings.given
    }


def _is_machine_path(text: str) -> bool:
    return bool(_PATH.match(text)) and "\n" not in text and " " not in text and not text.startswith(_SYSTEM)
