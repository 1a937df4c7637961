"""Find single fields of the analysis: batch size, duration, precision, data, devices, checkpoints.

Functions that find a field return None if the code does not show its value.
"""
