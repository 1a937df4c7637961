"""Run a model plugin as a trainer: give it data loaders, and store the metrics and checkpoints it reports."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from anygpu.trainers.config import ALIASES, Accepts, TrainingConfig
from anygpu.trainers.context import At
from anygpu.trainers.contract import AnyTrainer
from anygpu.trainers.errors import BadConfig, Stopped
from anygpu.trainers.plugins.checkpoints import PluginCheckpoint
from anygpu.trainers.plugins.loaders import PluginLoaders, build_loaders, own_loaders
from anygpu.trainers.result import Export

# The first of these metrics that a plugin reports selects the best epoch.
GOALS = (
    ("val_loss", "min"),
    ("val_accuracy", "max"),
    ("val_acc", "max"),
    ("mAP50-95", "max"),
    ("mAP", "max"),
    ("accuracy", "max"),
    ("loss", "min"),
    ("train_loss", "min"),
)


def plugin_config(
    config: TrainingConfig,
    loaders: PluginLoaders,
    *,
    dataset: Path | None,
    output: Path,
    workplace: Path,
    resume_from: Path | None,
) -> dict[str, Any]:
    """Return the `config` dictionary of a plugin: settings under all their names, classes and paths."""
    settings = {name: value for name, value in asdict(config).items() if name != "options"}
    values = {name: value for name, value in settings.items() if value not in ("", None)}
    spelled = {alias: values[name] for alias, name in ALIASES.items() if name in values}
    around = {
        "classes": list(loaders.classes),
        "num_classes": len(loaders.classes),
        "dataset_path": None if dataset is None else str(dataset),
        "output_dir": str(output),
        "checkpoint_dir": str(workplace / "plugin-checkpoints"),
        "resume_from": None if resume_from is None else str(resume_from),
    }
    return {**spelled, **values, **around, **config.options}


def choose_goal(metrics: Mapping[str, float], plugin: type[Any]) -> tuple[str, str]:
    """Return the metric that selects the best epoch, and "min" or "max".

    This is the plugin's `goal`, or the first entry of GOALS whose metric the plugin reports.
    """
    own = getattr(plugin, "goal", None)
    if isinstance(own, tuple):
        return own
    return next((goal for goal in GOALS if goal[0] in metrics), ("loss", "min"))


RESUMING = ("load_checkpoint", "load", "resume")


def adapt(candidate: object) -> type[AnyTrainer] | None:
    """Return a trainer class that runs the plugin class `candidate`; None if that is not a plugin."""
    if not isinstance(candidate, type) or not _is_plugin(candidate):
        return None
    return type(
        candidate.__name__,
        (PluginTrainer,),
        {
            "plugin": candidate,
            "name": getattr(candidate, "name", candidate.__name__),
            "accepts": _accepts(candidate),
        },
    )


def _is_plugin(candidate: type[Any]) -> bool:
    train = getattr(candidate, "train", None)
    if not callable(train):
        return False
    try:
        inspect.signature(train).bind(None, None, None, callbacks=None)
    except (TypeError, ValueError):
        return False
    return True


def _accepts(plugin: type[Any]) -> Accepts:
    """Return the settings a plugin accepts.

    If the plugin class has an attribute `options`, only these options are accepted, otherwise all.
    """
    listed = getattr(plugin, "options", None)
    return Accepts(
        options=frozenset(listed or ()),
        any_option=listed is None,
        defaults={"export": ()},
    )


class PluginTrainer(AnyTrainer):
    """Trainer that runs a plugin. It stores each checkpoint that the plugin reports, to resume from it."""

    plugin: ClassVar[type[Any]]
    licence: ClassVar[str] = "the plugin's own"

    def prepare_dataset(self) -> None:
        self._saved = PluginCheckpoint(self._checkpoints() / "plugin")
        self._first_epoch: int | None = None  # the plugin's number of its first epoch: 0 or 1
        self._ended = False
        self._loaders = PluginLoaders()
        if not own_loaders(self.plugin):
            self._loaders = build_loaders(self.dataset_path, self.config)
            self.data_hash = self._loaders.sha256

    def create_model(self) -> None:
        """Do nothing: `fit` creates the model, because the checkpoint to resume from is known only then."""

    def fit(self) -> None:
        resume_from = self._saved.path
        self._loaders.go_on_after(self.progress.epoch)
        config = plugin_config(
            self.config,
            self._loaders,
            dataset=self.dataset_path,
            output=self.output_dir,
            workplace=self.context.workplace(self.output_dir),
            resume_from=resume_from,
        )
        self.model = _load_plugin_checkpoint(self.plugin(config), resume_from)
        own = own_loaders(self.plugin)
        train, val = own(self.model, self.dataset_path, config) if own else self._loaders.pair
        self.model.train(train, val, callbacks=_PluginCallbacks(self))
        self._check_running()

    # -- callbacks of the plugin -------------------------------------------------------------------

    def report_batch(self, metrics: Mapping[str, float]) -> None:
        self.progress.step += 1
        self.progress.step_in_epoch += 1
        self.context.report(metrics, At(self.progress.step, epochs=self.config.epochs))

    def report_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self._check_running()
        self._go_back_to(epoch)
        progress = self.progress
        progress.step += 0 if progress.step_in_epoch else 1
        progress.finish_epoch(metrics, choose_goal(metrics, self.plugin))
        self.context.report(metrics, At(progress.step, epoch=progress.epoch, epochs=self.config.epochs))
        if self._saved.epoch == epoch:
            self._keep_saved()
        elif self.context.should_stop() and not self._saved.follows(epoch):
            self._stop()

    def report_checkpoint(self, epoch: int, path: Path) -> None:
        self._check_running()
        self._saved.take(path, epoch)
        if self._count(epoch) == self.progress.epoch:  # otherwise `report_epoch` keeps it
            self._keep_saved()

    def _keep_saved(self) -> None:
        if self.progress.best_epoch == self.progress.epoch:
            self._keep_best()
        stop = self.context.should_stop()
        self.checkpoint(wait=stop)
        if stop:
            self._stop()

    def _stop(self) -> None:
        self._ended = True
        raise Stopped

    def _check_running(self) -> None:
        """Raise Stopped again if it was raised before, because the plugin caught it and continued."""
        if self._ended:
            raise Stopped

    def _count(self, epoch: int) -> int:
        """Return how many epochs are complete when the plugin reports `epoch`. Plugins count from 0 or from 1."""
        if self._first_epoch is None:
            self._first_epoch = epoch
        return epoch - self._first_epoch + 1

    def _go_back_to(self, epoch: int) -> None:
        """If the plugin repeats an epoch that was already reported, forget the progress from there on.

        This happens when a resumed plugin ignores its checkpoint and starts from the beginning.
        """
        before = self._count(epoch) - 1
        progress = self.progress
        if 0 <= before < progress.epoch:
            progress.epoch, progress.history = before, progress.history[:before]
            progress.best_epoch = progress.best_epoch if progress.best_epoch <= before else 0

    # -- the trainer interface ---------------------------------------------------------------------

    def save_checkpoint(self, directory: Path) -> None:
        (directory / "plugin.json").write_text(
            json.dumps({"first_epoch": self._first_epoch, "saved": self._saved.epoch})
        )
        self._saved.copy_to(directory / "plugin")

    def load_checkpoint(self, directory: Path) -> None:
        state = json.loads((directory / "plugin.json").read_text())
        self._first_epoch = state["first_epoch"]
        self._saved.bring_back(directory / "plugin", state["saved"])
        if self._saved.path is None:
            sys.stderr.write(
                f"{self.name} saved no checkpoint to resume from, so training starts from the beginning\n"
            )

    def save_weights(self, directory: Path, stem: str) -> Path | None:
        if self._saved.path is not None:
            return self._saved.copy_as(directory, stem)
        save = getattr(self.model, "save", None)
        if not callable(save):
            return None
        save(str(directory / f"{stem}.model"))
        written = directory / f"{stem}.model"
        return written if written.exists() else None

    def load_weights(self, path: Path) -> None:
        """Do nothing: only the plugin can read its own files. So the exported model is the last, not the best."""

    def export_model(self, format: str, directory: Path) -> Export:
        export = getattr(self.model, "export_model", None) or getattr(self.model, "export", None)
        if not callable(export):
            raise BadConfig(
                f"export: {self.name} has no export_model(format, directory), so it cannot export {format};"
                " define the method, or set export: []"
            )
        made = export(format, str(directory))
        if made is None or not Path(made).exists():
            raise BadConfig(
                f"export: {self.name}.export_model({format!r}, ...) did not return the path of a file that "
                "exists; return the path of the file it wrote"
            )
        return Export(format=format, path=Path(made))


class _PluginCallbacks:
    """The `callbacks` argument of a plugin's `train`. Every other method named on_... exists and does nothing."""

    def __init__(self, trainer: PluginTrainer) -> None:
        self._trainer = trainer

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, Any] | None = None, **more: Any) -> None:
        self._trainer.report_epoch(int(epoch), _numbers({**(metrics or {}), **more}))

    def on_checkpoint_save(self, epoch: int, path: Any, **_: Any) -> None:
        self._trainer.report_checkpoint(int(epoch), Path(path))

    def on_batch_end(self, batch: int, metrics: Mapping[str, Any] | None = None, **more: Any) -> None:
        self._trainer.report_batch(_numbers({**(metrics or {}), **more}))

    on_step_end = on_batch_end

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _ignore
        raise AttributeError(name)


def _ignore(*_: Any, **__: Any) -> None:
    """Accept any call and do nothing."""


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics as floats. Values that are not a number, tensor or numpy scalar are dropped."""
    numbers = {}
    for name, value in metrics.items():
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError):
            continue
    return numbers


def _load_plugin_checkpoint(model: Any, path: Path | None) -> Any:
    """Load the checkpoint `path` with the plugin's `load_checkpoint`, `load` or `resume`; return the model.

    If the plugin has none of these methods, it is expected to read `config["resume_from"]` itself.
    """
    load = next((getattr(model, name) for name in RESUMING if callable(getattr(model, name, None))), None)
    if path is None or load is None:
        return model
    try:
        inspect.signature(load).bind(str(path))
    except TypeError:
        return model
    loaded = load(str(path))
    return loaded if isinstance(loaded, type(model)) else model
