"""The agent: the program that runs the user's job on a machine. Python 3.9 and its standard library only."""
