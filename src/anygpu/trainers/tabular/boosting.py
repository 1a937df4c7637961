"""XGBoost and LightGBM, round after round: booster and data stay, so that a round costs its own trees only.

Started from a model alone, as after a resume, the frameworks first ask all of its trees about every row; from then on
they keep what was said. Where rows or columns are drawn by chance, each round starts from the model alone: a
framework's generator does not come back with a checkpoint, but one seeded by the round's number does.
"""

from __future__ import annotations

import copy
from typing import Any

from anygpu.trainers.tabular.settings import SHARES, uses_randomness


class XGBoostRounds:
    """Adds rounds to an XGBoost estimator."""

    def __init__(self) -> None:
        self._data: Any = None

    def __call__(
        self, estimator: Any, inputs: Any, target: Any, *, number: int, rounds: int, seed: int
    ) -> None:
        """Epoch `number` (from 0): `rounds` trees more."""
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
    """Adds rounds to a LightGBM estimator."""

    def __init__(self) -> None:
        self._fitted: dict[str, Any] | None = (
            None  # what the estimator's own `fit` made of settings and target
        )
        self._live: Any = None  # a booster that still has its data

    def __call__(
        self, estimator: Any, inputs: Any, target: Any, *, number: int, rounds: int, seed: int
    ) -> None:
        """Epoch `number` (from 0): `rounds` trees more."""
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
        except LightGBMError as error:  # others raise a ValueError, and do not tell where their source lies
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
    """What rounds `first` to `last` (exclusive) add to what those before them said, before it is made a probability."""
    if hasattr(estimator, "booster_"):
        said = estimator.booster_.predict(
            inputs, start_iteration=first, num_iteration=last - first, raw_score=True
        )
        return said if before is None else before + said
    return estimator.get_booster().inplace_predict(
        inputs, iteration_range=(first, last), predict_type="margin", base_margin=before
    )


def first_rounds(estimator: Any, rounds: int) -> Any:
    """A copy of the estimator as it was after its first `rounds`."""
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
    """Wherever the estimator keeps its booster."""
    for name, value in list(vars(estimator).items()):
        if value is old:
            setattr(estimator, name, new)
