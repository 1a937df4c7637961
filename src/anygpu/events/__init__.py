"""Events of jobs, and the fold: the function that computes the current state (view) of a job from its events."""
