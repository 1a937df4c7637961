"""The agent: the small program beside the user's code. Python 3.9 and its standard library only."""
