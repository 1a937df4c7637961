"""Find the model that is trained and count its weights.

A function returns None if the code does not show what the function looks for.
"""
