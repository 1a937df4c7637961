"""Model plugins run unchanged: killed, stopped and resumed through the checkpoints they write themselves."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest

from anygpu.trainers import (
    At,
    BadConfig,
    BadDataset,
    LocalContext,
    NoSuchTrainer,
    TrainerError,
    find,
    get_trainer,
)
from anygpu.trainers.plugins import BaseModel, registry

EPOCHS = 6
PLUGIN = """
import json
from pathlib import Path
from training.base import BaseModel
from training.registry import registry

@registry.register("my_model")
class MyModel(BaseModel):
    def __init__(self, config):
        super().__init__(config)
        self.slope, self.start = 0.0, 0
        if config.get("resume_from"):
            state = json.loads(Path(config["resume_from"]).read_text())
            self.slope, self.start = state["slope"], state["epoch"] + 1

    def train(self, train_loader, val_loader, callbacks):
        for epoch in range(self.start, self.config["epochs"]):
            for inputs, targets in train_loader:
                for x, y in zip(inputs, targets):
                    self.slope -= self.config["lr"] * (self.slope * float(x[0]) - float(y)) * float(x[0])
            if callbacks:
                self.tell(callbacks, epoch, val_loader)

    def tell(self, callbacks, epoch, val_loader):
        callbacks.on_epoch_end(epoch, {"loss": self.loss(val_loader), "slope": self.slope})
        callbacks.on_checkpoint_save(epoch, self.write(epoch))

    def loss(self, loader):
        pairs = [(float(x[0]), float(y)) for batch in loader for x, y in zip(*batch)]
        return sum((self.slope * x - y) ** 2 for x, y in pairs) / len(pairs)

    def write(self, epoch):
        path = Path(self.config["output_dir"]) / "state.json"
        path.write_text(json.dumps({"slope": self.slope, "epoch": epoch}))
        return str(path)
"""
SAVES_FIRST = (
    PLUGIN
    + """
class SavesFirst(MyModel):
    def tell(self, callbacks, epoch, val_loader):
        callbacks.on_checkpoint_save(epoch + 1, self.write(epoch))
        callbacks.on_epoch_end(epoch + 1, {"loss": self.loss(val_loader), "slope": self.slope})

class CatchesAll(MyModel):
    def tell(self, callbacks, epoch, val_loader):
        try:
            super().tell(callbacks, epoch, val_loader)
        except Exception:
            pass

class Loads(MyModel):
    def __init__(self, config):
        super().__init__({**config, "resume_from": None})

    def load_checkpoint(self, path):
        state = json.loads(Path(path).read_text())
        self.slope, self.start = state["slope"], state["epoch"] + 1

class Forgets(MyModel):
    def __init__(self, config):
        super().__init__({**config, "resume_from": None})
"""
)


class Killed(BaseException):
    """As SIGKILL: nothing of the training runs after it."""


class Watching(LocalContext):
    """Remembers what was told; kills, or asks to stop, once so many epochs are done."""

    def __init__(self, output: Path, *, kill_at: int = 0, stop_at: int = 0, resume: bool = False) -> None:
        super().__init__(output, resume=resume, bar=False)
        self.kill_at, self.stop_at, self.epochs = kill_at, stop_at, list[int]()

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        if self.kill_at and at.epoch == self.kill_at:
            raise Killed
        if at.epoch is not None:
            self.epochs.append(at.epoch)

    def should_stop(self) -> bool:
        return bool(self.stop_at) and len(self.epochs) >= self.stop_at


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.split(".")[0] in ("training", "my_model")]:
        del sys.modules[name]
    registry._models.clear()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x = numpy.linspace(0, 1, 40).reshape(-1, 1)
    numpy.savez(tmp_path / "line.npz", x=x, y=3 * x[:, 0] + 0.1)
    return tmp_path / "line.npz"


def file(tmp_path: Path, text: str = SAVES_FIRST) -> Path:
    (tmp_path / "my_model.py").write_text(text)
    return tmp_path / "my_model.py"


def trained(plugin: str, data: Path | None, output: Path, context: LocalContext, **settings: Any) -> Any:
    settings = {"epochs": EPOCHS, "lr": 0.05, **settings}
    return get_trainer(plugin, dataset_path=data, output_dir=output, context=context, **settings).train()


@pytest.mark.parametrize("name", ["MyModel", "my_model", "SavesFirst", "Loads"])
@pytest.mark.parametrize("at", [1, 3, EPOCHS])
def test_a_plugin_killed_in_the_middle_goes_on_from_its_own_checkpoint(
    tmp_path: Path, data: Path, name: str, at: int
) -> None:
    plugin = f"{file(tmp_path)}:{name}"
    whole = trained(plugin, data, tmp_path / "whole", Watching(tmp_path / "whole"))
    output = tmp_path / "out"
    with pytest.raises(Killed):
        trained(plugin, data, output, Watching(output, kill_at=at))
    context = Watching(output, resume=True)
    result = trained(plugin, data, output, context)
    assert context.epochs == list(range(at, EPOCHS + 1))
    assert result.history == whole.history
    assert result.metrics["loss"] < 0.5 * whole.history[0]["loss"]


@pytest.mark.parametrize("name", ["MyModel", "SavesFirst", "CatchesAll"])
def test_a_stop_comes_after_the_checkpoint_of_its_epoch(tmp_path: Path, data: Path, name: str) -> None:
    output = tmp_path / "out"
    plugin = f"{file(tmp_path)}:{name}"
    result = trained(plugin, data, output, Watching(output, stop_at=3))
    assert (result.stopped, result.epochs) == (True, 3)
    context = Watching(output, resume=True)
    assert trained(plugin, data, output, context).epochs == EPOCHS
    assert context.epochs == [4, 5, 6]


def test_a_plugin_that_cannot_go_on_starts_again_and_counts_no_epoch_twice(
    tmp_path: Path, data: Path
) -> None:
    output, plugin = tmp_path / "out", f"{file(tmp_path)}:Forgets"
    with pytest.raises(Killed):
        trained(plugin, data, output, Watching(output, kill_at=4))
    context = Watching(output, resume=True)
    result = trained(plugin, data, output, context)
    assert context.epochs == [1, 2, 3, 4, 5, 6]
    assert len(result.history) == EPOCHS


def test_the_files_of_the_best_and_the_last_epoch_are_the_result(tmp_path: Path, data: Path) -> None:
    result = trained(f"{file(tmp_path)}:MyModel", data, tmp_path / "out", Watching(tmp_path / "out"), lr=1.9)
    losses = [each["loss"] for each in result.history]
    assert json.loads(result.best.read_text())["epoch"] == losses.index(min(losses))
    assert json.loads(result.last.read_text())["epoch"] == EPOCHS - 1
    assert "`line.npz`, sha256" in result.card.read_text()


def test_a_package_named_training_of_ones_own_comes_first(tmp_path: Path, data: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "__init__.py").write_text("")
    (tmp_path / "training" / "base.py").write_text(
        "class BaseModel:\n    mine = True\n    def __init__(self, config): self.config = config\n"
    )
    (tmp_path / "training" / "registry.py").write_text(
        "class registry:\n    @staticmethod\n    def register(name): return lambda model: model\n"
    )
    kind = find(f"{file(tmp_path)}:MyModel")
    assert kind.plugin.mine  # type: ignore[attr-defined]
    assert not issubclass(kind.plugin, BaseModel)  # type: ignore[attr-defined]
    result = trained(f"{file(tmp_path)}:MyModel", data, tmp_path / "out", Watching(tmp_path / "out"))
    assert result.epochs == EPOCHS


class OwnLoaders:
    """Has loaders, options and exports of its own, and no base class at all."""

    options = ("hidden",)

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    def prepare_dataloaders(self, dataset: str | None, config: dict[str, Any]) -> tuple[list[int], list[int]]:
        return [1, 2, 3], [config["hidden"]]

    def train(self, train_loader: Any, val_loader: Any, callbacks: Any = None) -> None:
        callbacks.on_train_begin()
        for batch in train_loader:
            callbacks.on_batch_end(batch, {"loss": 1 / batch})
        callbacks.on_epoch_end(1, {"accuracy": numpy.float32(0.5), "note": "no number", "val": val_loader[0]})

    def export_model(self, format: str, directory: str) -> Path:
        path = Path(directory) / f"model.{format}"
        path.write_text("exported")
        return path


def test_a_plugin_may_have_loaders_options_and_exports_of_its_own(tmp_path: Path) -> None:
    registry.register("own", OwnLoaders)
    context = Watching(tmp_path)
    trainer = get_trainer("own", output_dir=tmp_path, context=context, hidden=7, epochs=1, export="txt")
    result = trainer.train()
    assert result.metrics == {"accuracy": 0.5, "val": 7.0}
    assert (result.timing.steps, result.last, result.exports[0].path.name) == (3, None, "model.txt")
    with pytest.raises(BadConfig, match="did you mean 'hidden'"):
        get_trainer("own", output_dir=tmp_path, hiden=7)


def test_a_registered_model_is_got_by_its_name_and_made_with_a_dictionary(tmp_path: Path) -> None:
    find(f"{file(tmp_path)}:MyModel")
    model = registry.get_model("my_model")({"epochs": 2, "lr": 0.1})
    assert (registry.list_models(), model.config["epochs"]) == (["my_model"], 2)
    with pytest.raises(NoSuchTrainer, match="there is no trainer 'my_modell'"):
        registry.get_model("my_modell")


def test_what_is_neither_trainer_nor_plugin_is_said(tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text("class Thing:\n    def train(self): ...\n")
    with pytest.raises(NoSuchTrainer, match=r"which is not a trainer; name a subclass"):
        find(f"{tmp_path / 'my_model.py'}:Thing")


def test_a_checkpoint_that_does_not_exist_is_said(tmp_path: Path) -> None:
    class Lies(OwnLoaders):
        def train(self, train_loader: Any, val_loader: Any, callbacks: Any = None) -> None:
            callbacks.on_checkpoint_save(0, "nowhere.pth")

    registry.register("lies", Lies)
    with pytest.raises(TrainerError, match=r"reported a checkpoint at nowhere.pth .* which does not exist"):
        get_trainer("lies", output_dir=tmp_path, epochs=1, hidden=1).train()


def test_arrays_without_targets_are_said(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "a.npz", x=[1, 2])
    with pytest.raises(BadDataset, match=r"a\.npz: has the arrays x; save it with the arrays x and y"):
        trained(f"{file(tmp_path)}:MyModel", tmp_path / "a.npz", tmp_path / "out", Watching(tmp_path))


class Looks:
    """Keeps what its loaders gave."""

    seen: ClassVar[list[Any]] = []
    config: ClassVar[dict[str, Any]] = {}

    def __init__(self, config: dict[str, Any]) -> None:
        Looks.config = config

    def train(self, train_loader: Any, val_loader: Any, callbacks: Any = None) -> None:
        Looks.seen = [*train_loader, *val_loader]


def test_a_table_comes_as_batches_of_numbers_and_classes(tmp_path: Path) -> None:
    registry.register("looks", Looks)
    rows = [f"{n}.5,{('red', 'blue')[n % 2]},{('yes', 'no')[n % 2]}" for n in range(10)]
    (tmp_path / "t.csv").write_text("\n".join(["size,colour,bought", *rows]))
    get_trainer("looks", dataset_path=tmp_path / "t.csv", output_dir=tmp_path / "out", batch_size=4).train()
    assert Looks.config["classes"] == ["no", "yes"]
    assert [len(targets) for _, targets in Looks.seen] == [4, 4, 2]
    pairs = [pair for batch in Looks.seen for pair in zip(*batch, strict=True)]
    assert sorted(float(row[0]) for row, _ in pairs) == [n + 0.5 for n in range(10)]
    assert all((float(row[1]), float(row[2])) == (1 - int(target), int(target)) for row, target in pairs)


def test_a_table_without_a_value_to_learn_is_said(tmp_path: Path) -> None:
    registry.register("looks", Looks)
    (tmp_path / "t.csv").write_text("size,price\n1,2\n2,\n")
    with pytest.raises(BadDataset, match=r"t\.csv:3: column 'price' is empty"):
        get_trainer("looks", dataset_path=tmp_path / "t.csv", output_dir=tmp_path / "out").train()


def test_a_plugin_of_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file(
        tmp_path,
        PLUGIN.replace("training.base", "anygpu.trainers.plugins").replace(
            "training.registry", "anygpu.trainers.plugins"
        ),
    )
    (tmp_path / "line.py").write_text((Path(__file__).parents[1] / "line.py").read_text())
    info = tmp_path / "my_models-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-models\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[anygpu.trainers]\nmine = my_model:MyModel\nline = line:Line\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert trained("mine", data, tmp_path / "out", Watching(tmp_path / "out")).epochs == EPOCHS
    assert get_trainer("line", output_dir=tmp_path / "line", epochs=1).train().epochs == 1
    with pytest.raises(NoSuchTrainer, match="did you mean 'mine'"):
        find("mines")


def test_a_misspelt_class_of_a_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "flowers_model.py").write_text("class Perceptron:\n    def train(self, a, b, c): ...\n")
    with pytest.raises(NoSuchTrainer, match=r"has no class 'Perceptorn'; did you mean 'Perceptron'\?"):
        find(f"{tmp_path}/flowers_model.py:Perceptorn")
