"""The process as a busy server wants it."""

import gc
import sys

# At a thousand machines there are a million objects. By the usual thresholds all of them would be looked through
# every second or two, for half a second and a third of all the time; by these, when ten million were made and stayed.
COLLECT_AFTER = (10_000, 10, 100)
# The loop lets go of the interpreter at every system call, and while a thread computes gets it back after this long.
SWITCH_S = 0.0005


def settle() -> None:
    """Once everything is made that stays for as long as the server runs."""
    gc.freeze()  # what is here now stays; a collection need not look at it again
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()
    sys.setswitchinterval(SWITCH_S)
