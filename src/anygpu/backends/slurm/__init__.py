"""Run attempts as jobs of a Slurm cluster, over SSH to a login node or with local commands."""
