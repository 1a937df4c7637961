"""Find the single values of an analysis: batch size, duration, precision, data, devices, checkpoints.

A function returns None if the code does not show the value that the function looks for.
"""
