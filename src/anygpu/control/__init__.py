"""The control loop: accept jobs, start and watch their attempts, and end machines that no job needs.

Clock and randomness are arguments, so that tests and the simulation can replace them.
"""
