"""Tables: scikit-learn, XGBoost and LightGBM, from a CSV or Parquet file to one file that predicts."""
