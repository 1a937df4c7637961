"""The control loop: accept jobs, schedule and reconcile attempts, sweep orphans.

Clock and randomness are arguments, so that tests and the simulation can replace them.
"""
