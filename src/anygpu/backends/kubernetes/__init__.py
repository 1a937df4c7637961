"""The Kubernetes backend: a Job with one pod for each attempt."""
