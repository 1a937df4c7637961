"""Base class of trainers whose processes torch connects, if there are several.

torch is imported only when there are several processes, so settings and datasets can be checked without it.
"""

from __future__ import annotations

from anygpu.trainers.contract import AnyTrainer
from anygpu.trainers.ranks import SINGLE, Ranks, size_from_environment
from anygpu.trainers.result import TrainingResult


class TorchProcesses(AnyTrainer):
    """Connects the processes of a training before it begins, and disconnects them at its end."""

    single_gpu_reason = ""

    def train(self) -> TrainingResult:
        result = super().train()
        if self.ranks.size > 1:
            from anygpu.trainers.torch.ranks import leave_process_group

            leave_process_group()
        return result

    def join_ranks(self) -> Ranks:
        if size_from_environment() == 1:
            return SINGLE
        from anygpu.trainers.torch.ranks import join

        return join(self.config.device)
