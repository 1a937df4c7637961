"""The tabular trainer: scikit-learn, XGBoost and LightGBM models for CSV and Parquet tables."""
