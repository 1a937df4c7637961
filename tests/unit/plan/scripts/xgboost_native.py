import argparse

import pandas as pd
import xgboost as xgb
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

ap = argparse.ArgumentParser()
ap.add_argument("--train", default="data/train.csv")
ap.add_argument("--rounds", type=int, default=800)
ap.add_argument("--max-depth", type=int, default=8)
args = ap.parse_args()

df = pd.read_csv(args.train)
y = df.pop("target")
X_tr, X_va, y_tr, y_va = train_test_split(df, y, test_size=0.2, random_state=1, stratify=y)
dtrain, dvalid = xgb.DMatrix(X_tr, y_tr), xgb.DMatrix(X_va, y_va)
params = {"objective": "binary:logistic", "max_depth": args.max_depth, "eta": 0.05, "tree_method": "hist"}
booster = xgb.train(
    params,
    dtrain,
    num_boost_round=args.rounds,
    evals=[(dvalid, "valid")],
    early_stopping_rounds=50,
)
print(roc_auc_score(y_va, booster.predict(dvalid)))
booster.save_model("model.json")
