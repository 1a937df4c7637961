"""Find the model that is trained and count its weights.

Functions that find something return None if the code does not show it.
"""
