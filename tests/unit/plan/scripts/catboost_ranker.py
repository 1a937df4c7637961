from catboost import CatBoostClassifier, Pool
import pandas as pd

df = pd.read_csv("clicks.csv")
cat = ["country", "device_kind"]
pool = Pool(df.drop(columns="click"), df["click"], cat_features=cat)
model = CatBoostClassifier(iterations=1500, depth=8, learning_rate=0.05, task_type="GPU", verbose=100)
model.fit(pool)
model.save_model("clicks.cbm")
