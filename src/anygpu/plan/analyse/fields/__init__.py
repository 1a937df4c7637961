"""Find single fields of the analysis: batch size, duration, precision, data, devices, checkpoints."""
