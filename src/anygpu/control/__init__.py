"""The control loop: accept jobs, schedule and reconcile attempts, sweep orphans.

Clock and randomness are injected.
"""
