"""Routes for what comes before a job: plans, specs, trainers, and uploads of code."""
