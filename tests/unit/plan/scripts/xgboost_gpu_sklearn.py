import joblib
from sklearn.datasets import fetch_covtype
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

X, y = fetch_covtype(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y - 1, random_state=0)

clf = XGBClassifier(n_estimators=2000, max_depth=10, learning_rate=0.1, device="cuda", tree_method="hist")
clf.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=100)
print(clf.score(X_test, y_test))
joblib.dump(clf, "covtype.joblib")
