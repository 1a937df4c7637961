"""Where it should run: pure functions from a job and the offers to a ranked plan with its reasons."""
