"""Predict training time and GPU memory, and measure how accurate the predictions were."""
