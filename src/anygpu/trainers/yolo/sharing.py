"""Let several processes, one for each GPU, share each batch of ultralytics' training loop.

Ultralytics' own way needs CUDA, and starts its processes from a script in a temporary file. Here each process is the
only one for ultralytics (`isolation` hides the others). This module divides the batches, and averages the gradients of
the processes after each batch. Rank 0 validates, while the others wait.
"""

from __future__ import annotations

from typing import Any

import torch
from ultralytics.engine import trainer as engine_module
from ultralytics.utils.torch_utils import unwrap_model

from anygpu.trainers.errors import TrainerError
from anygpu.trainers.ranks import first_then_others
from anygpu.trainers.torch import state
from anygpu.trainers.torch.learner import RANK_SEED_STEP

OUT_OF_MEMORY = (
    "a GPU has too little memory for its part of each batch; "
    "set a smaller batch_size or image_size, or use more GPUs"
)


class SharingEngine:
    """Mixin for a `ResumableEngine` that is one of several processes."""

    _loss: Any = None

    @property
    def loss(self) -> Any:
        """The loss of this rank's part of the batch, scaled so that the mean of all gradients is that of the batch.

        Ultralytics multiplies losses by the number of images in the batch, except that of classification.
        """
        return self._loss

    @loss.setter
    def loss(self: Any, value: Any) -> None:
        factor = 1 if self.args.task == "classify" else self.ranks.size
        self._loss = None if value is None else value * factor

    # -- setting up --------------------------------------------------------------------------------

    def _setup_train(self: Any) -> None:
        """Set up the training. Only rank 0 checks mixed precision, because the check may download a model."""
        check = engine_module.check_amp
        engine_module.check_amp = lambda model: self.ranks.share(self.ranks.is_first and check(model))
        try:
            super()._setup_train()  # type: ignore[misc]
        finally:
            engine_module.check_amp = check

    def setup_model(self: Any) -> Any:
        """Create the model, in rank 0 first, because it may download weights."""
        return first_then_others(self.ranks, super().setup_model)  # type: ignore[misc]

    def set_model_attributes(self: Any) -> None:
        """Complete the model, which is the same in all ranks. From now on, each rank draws other random numbers."""
        super().set_model_attributes()  # type: ignore[misc]
        self.ranks.copy_from_first(self.model.state_dict().values())
        if not self.ranks.is_first:
            state.seed_everything(self.args.seed + RANK_SEED_STEP * self.ranks.rank)

    def get_dataloader(
        self: Any, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train"
    ) -> Any:
        """Create a loader of this rank's part of each batch, in rank 0 first, because it writes a list of labels."""
        create, part = super().get_dataloader, batch_size // self.ranks.size  # type: ignore[misc]
        return first_then_others(self.ranks, lambda: create(dataset_path, part, rank, mode))

    def _build_train_pipeline(self: Any) -> None:
        """Create loaders and optimiser. Ultralytics calls this again, with half the batch, if memory is exhausted."""
        if self.optimizer is not None:
            raise TrainerError(OUT_OF_MEMORY)
        super()._build_train_pipeline()  # type: ignore[misc]

    # -- training and validating -------------------------------------------------------------------

    def run_callbacks(self: Any, event: str) -> None:
        if event == "on_train_batch_end":
            self._share_batch()
        super().run_callbacks(event)  # type: ignore[misc]

    def optimizer_step(self: Any) -> None:
        self._average_gradients()
        super().optimizer_step()  # type: ignore[misc]

    def validate(self: Any) -> Any:
        """Return the metrics and the fitness that rank 0 has measured."""
        return self.ranks.share(super().validate() if self.ranks.is_first else None)  # type: ignore[misc]

    def _share_batch(self: Any) -> None:
        """Set accumulated gradients and losses to their mean, so that they are the same in all ranks.

        Then one copy of them is enough in a checkpoint, and all ranks notice a loss that is not a number.
        """
        if not self.stepped:
            self._average_gradients()
        names = list(self.loss_items)
        losses = [self._loss, *self.loss_items.values(), *(self.tloss[name] for name in names)]
        numbers = torch.stack([each.detach().float() for each in losses])
        means = numbers.new_tensor(self.ranks.means(numbers.tolist())).unbind()
        self._loss = means[0]
        self.loss_items = dict(zip(names, means[1 : len(names) + 1], strict=True))
        self.tloss = dict(zip(names, means[len(names) + 1 :], strict=True))

    def _average_gradients(self: Any) -> None:
        trained = [each for each in unwrap_model(self.model).parameters() if each.requires_grad]
        self.ranks.average_gradients(trained)

    # -- saving and resuming -----------------------------------------------------------------------

    def snapshot(self: Any, *, epoch: int, done_in_epoch: int) -> dict[str, Any]:
        saved = super().snapshot(epoch=epoch, done_in_epoch=done_in_epoch)  # type: ignore[misc]
        return {**saved, "ranks": self.ranks.gather(self.rank_state())}

    def contribute_state(self: Any) -> None:
        """Send the state that only this rank has to rank 0, which is in `snapshot`."""
        self.ranks.gather(self.rank_state())

    def resume_from(self: Any, saved: dict[str, Any]) -> None:
        """Continue from a snapshot. If another number of ranks made it, only rank 0 restores its random generators."""
        ranks = saved.get("ranks", ())
        own: dict[str, Any] = {} if self.ranks.is_first else {"buffer": [], "chance": None}
        super().resume_from(  # type: ignore[misc]
            {**saved, **(ranks[self.ranks.rank] if len(ranks) == self.ranks.size else own)}
        )
