"""Read models behind the routes: jobs, plans, the queue and machines."""
