"""Parts that the backends of batch engines share: Slurm, Kubernetes, Celery and Ray."""
