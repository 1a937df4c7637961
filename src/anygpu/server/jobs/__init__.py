"""Data that the routes return, computed from the stores: jobs, plans, the queue and machines."""
