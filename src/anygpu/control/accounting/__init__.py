"""Costs of jobs (so far, predicted, and as the provider measures them), and how long completed jobs took."""
