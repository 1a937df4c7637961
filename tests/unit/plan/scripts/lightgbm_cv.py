import lightgbm as lgb
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

train = pd.read_parquet("s3://bucket/features/train.parquet")
features = [c for c in train.columns if c not in ("id", "price")]
params = {
    "objective": "regression",
    "metric": "rmse",
    "num_leaves": 255,
    "learning_rate": 0.02,
    "feature_fraction": 0.8,
    "verbosity": -1,
}
oof = np.zeros(len(train))
for fold, (tr, va) in enumerate(KFold(5, shuffle=True, random_state=7).split(train)):
    dtr = lgb.Dataset(train.iloc[tr][features], train.iloc[tr]["price"])
    dva = lgb.Dataset(train.iloc[va][features], train.iloc[va]["price"], reference=dtr)
    model = lgb.train(
        params, dtr, 5000, valid_sets=[dva], callbacks=[lgb.early_stopping(200), lgb.log_evaluation(500)]
    )
    oof[va] = model.predict(train.iloc[va][features])
    model.save_model(f"fold_{fold}.txt")
print(np.sqrt(np.mean((oof - train["price"]) ** 2)))
