"""Train XGBoost and LightGBM models incrementally, keeping the booster and its data between epochs.

With the booster and the data in memory, an epoch computes only its new trees. After a resume, the framework
first has to evaluate all existing trees on every row.

If the settings sample rows or columns at random, each epoch instead calls `fit` on the existing model, with a
seed derived from the epoch number. A checkpoint does not contain the framework's random state, so a resumed
training could not draw the same samples otherwise.
"""

from __future__ import annotations

import copy
from typing import Any

from anygpu.trainers.tabular.settings import SHARES, uses_randomness


class XGBoostRounds:
    """Trains an XGBoost estimator epoch by epoch; each epoch adds boosting rounds."""

    def __init__(self) -> None:
        self._data: Any = None

    def __call__(
        self, estimator: Any, inputs: Any, target: Any, *, number: int, rounds: int, seed: int
    ) -> None:
        """Train epoch `number` (0-based): add `rounds` boosting rounds."""
        if number and not _draws(estimator):
            self._go_on(estimator, inputs, target, rounds)
            return
        before = estimator.get_booster() if number else None
        estimator.set_params(n_estimators=rounds, random_state=(seed + number) % 2**31)
        estimator.fit(inputs, target, xgb_model=before)

    def _go_on(self, estimator: Any, inputs: Any, target: Any, rounds: int) -> None:
        from xgboost import QuantileDMatrix

        if self._data is None:
            self._data = QuantileDMatrix(
                inputs, target, nthread=estimator.n_jobs, max_bin=estimator.max_bin or 256
            )
        booster = estimator.get_booster()
        for _ in range(rounds):
            booster.update(self._data, booster.num_boosted_rounds())


class LightGBMRounds:
    """Trains a LightGBM estimator epoch by epoch; each epoch adds boosting rounds."""

    def __init__(self) -> None:
        # Parameters, labels and weights as the estimator's `fit` prepared them.
        self._fitted: dict[str, Any] | None = None
        self._live: Any = None  # a booster that still holds its training data

    def __call__(
        self, estimator: Any, inputs: Any, target: Any, *, number: int, rounds: int, seed: int
    ) -> None:
        """Train epoch `number` (0-based): add `rounds` boosting rounds."""
        if _draws(estimator):
            self._fit(estimator, inputs, target, number, rounds, (seed + number) % 2**31)
        elif self._fitted is None:
            self._fit(estimator, inputs, target, number, rounds, seed % 2**31)
        elif self._live is None:
            self._begin(estimator, inputs, rounds)
        else:
            for _ in range(rounds):
                self._live.update()

    def _fit(
        self, estimator: Any, inputs: Any, target: Any, number: int, rounds: int, random_state: int
    ) -> None:
        def note(env: Any) -> None:
            data = env.model.train_set
            self._fitted = {"params": env.params, "label": data.get_label(), "weight": data.get_weight()}

        from lightgbm.basic import LightGBMError

        before = estimator.booster_ if number else None
        estimator.set_params(n_estimators=rounds, random_state=random_state)
        try:
            estimator.fit(inputs, target, init_model=before, callbacks=[note])
        except LightGBMError as error:  # raise ValueError as the others do, without source paths
            raise ValueError(str(error).partition(" at /")[0]) from error

    def _begin(self, estimator: Any, inputs: Any, rounds: int) -> None:
        import lightgbm

        assert self._fitted is not None
        params, label, weight = self._fitted["params"], self._fitted["label"], self._fitted["weight"]
        self._live = lightgbm.train(
            params,
            lightgbm.Dataset(inputs, label=label, weight=weight, params=params),
            num_boost_round=rounds,
            init_model=estimator.booster_,
            keep_training_booster=True,
        )
        _exchange(estimator, estimator.booster_, self._live)


def rounds_of(estimator: Any) -> int:
    if hasattr(estimator, "booster_"):
        return int(estimator.booster_.current_iteration())
    return int(estimator.get_booster().num_boosted_rounds())


def raw(estimator: Any, inputs: Any, first: int, last: int, before: Any) -> Any:
    """Return the sums of the raw scores of all boosting rounds before round `last`, for the rows `inputs`.

    `before` has the sums of the rounds before `first`, so only the rounds from `first` on are evaluated.
    """
    if hasattr(estimator, "booster_"):
        scores = estimator.booster_.predict(
            inputs, start_iteration=first, num_iteration=last - first, raw_score=True
        )
        return scores if before is None else before + scores
    return estimator.get_booster().inplace_predict(
        inputs, iteration_range=(first, last), predict_type="margin", base_margin=before
    )


def first_rounds(estimator: Any, rounds: int) -> Any:
    """Return a copy of the estimator with only its first `rounds` boosting rounds."""
    done = copy.copy(estimator)
    if hasattr(estimator, "booster_"):
        from lightgbm import Booster

        text = estimator.booster_.model_to_string(num_iteration=rounds)
        _exchange(done, estimator.booster_, Booster(model_str=text))
    else:
        _exchange(done, estimator.get_booster(), estimator.get_booster()[:rounds])
    return done


def _draws(estimator: Any) -> bool:
    return uses_randomness([getattr(estimator, name, None) for name in SHARES])


def _exchange(estimator: Any, old: Any, new: Any) -> None:
    """Replace the trained booster `old` by `new` in every attribute of the estimator that refers to it."""
    for name, value in list(vars(estimator).items()):
        if value is old:
            setattr(estimator, name, new)
