"""The machine on which the agent runs: requests over SSH, GPU and CPU slots, processes, GPUs, telemetry."""
