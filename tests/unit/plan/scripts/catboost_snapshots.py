import json
import sys

import numpy as np
import polars as pl
from catboost import CatBoostRegressor, Pool
from sklearn.metrics import mean_absolute_error

PARAMS = dict(
    iterations=8000,
    learning_rate=0.03,
    depth=7,
    l2_leaf_reg=5,
    loss_function="MAE",
    od_type="Iter",
    od_wait=200,
    thread_count=16,
    random_seed=11,
)


def pools(path):
    frame = pl.read_parquet(path)
    late = frame["week"] >= 48
    features = [c for c in frame.columns if c not in ("demand", "week")]
    words = [c for c in features if frame[c].dtype == pl.Utf8]

    def pool(mask):
        part = frame.filter(mask)
        return Pool(part.select(features).to_pandas(), part["demand"].to_numpy(), cat_features=words)

    return pool(~late), pool(late)


def main(path="warehouse/demand.parquet"):
    train, valid = pools(path)
    model = CatBoostRegressor(**PARAMS, save_snapshot=True, snapshot_file="demand.snapshot", snapshot_interval=300)
    model.fit(train, eval_set=valid, use_best_model=True, verbose=250)
    error = mean_absolute_error(valid.get_label(), model.predict(valid))
    print(json.dumps({"mae": float(np.round(error, 4)), "trees": model.tree_count_}))
    model.save_model("demand.cbm")


if __name__ == "__main__":
    main(*sys.argv[1:])
