"""The machine the agent runs on: requests over SSH, slots, processes, GPUs, telemetry."""
