"""Run attempts as jobs of a Ray cluster, through its Jobs REST API."""
