"""What a rented machine is told at boot: when to end by itself, whatever becomes of us."""

import math


def startup_script(life_s: float) -> str:
    """Runs as root by cloud-init. The same for the same life, so that an order repeated is the same order."""
    minutes = max(1, math.ceil(life_s / 60))
    return f"#!/bin/sh\nshutdown -h +{minutes} 'anygpu: the life of this machine is over'\n"
