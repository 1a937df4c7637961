import joblib
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
pipe = make_pipeline(StandardScaler(), RandomForestClassifier(n_jobs=-1))
search = GridSearchCV(pipe, {"randomforestclassifier__n_estimators": [100, 300]}, cv=5, n_jobs=-1)
search.fit(X_train, y_train)
print(search.best_params_, search.score(X_test, y_test))
joblib.dump(search.best_estimator_, "model.joblib")
