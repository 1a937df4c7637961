import argparse
from pathlib import Path

import joblib
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.metrics import classification_report
from sklearn.model_selection import RandomizedSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

NUMERIC = ["age", "tenure_days", "tickets"]
CATEGORIES = ["plan", "country"]


def build():
    numbers = Pipeline([("fill", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    columns = ColumnTransformer(
        [
            ("num", numbers, NUMERIC),
            ("cat", OneHotEncoder(handle_unknown="ignore", sparse_output=False), CATEGORIES),
            ("notes", TfidfVectorizer(max_features=300), "notes"),
        ],
        sparse_threshold=0.0,
    )
    return Pipeline([("columns", columns), ("model", HistGradientBoostingClassifier(max_iter=300))])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", type=Path, default=Path("churn.parquet"))
    parser.add_argument("--n-iter", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=-1)
    args = parser.parse_args()

    table = pd.read_parquet(args.input)
    X_train, X_test, y_train, y_test = train_test_split(
        table.drop(columns="churned"), table["churned"], test_size=0.2, stratify=table["churned"], random_state=3
    )
    search = RandomizedSearchCV(
        build(),
        {"model__learning_rate": [0.02, 0.05, 0.1], "model__max_leaf_nodes": [15, 31, 63]},
        n_iter=args.n_iter,
        cv=5,
        scoring="roc_auc",
        n_jobs=args.jobs,
        verbose=2,
    )
    search.fit(X_train, y_train)
    print(search.best_params_, search.best_score_)
    print(classification_report(y_test, search.predict(X_test)))
    joblib.dump(search.best_estimator_, "churn.joblib")


if __name__ == "__main__":
    main()
