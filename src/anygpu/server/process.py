"""The process as a busy server wants it."""

import gc
import sys

# At a thousand machines there are a million objects. By the usual thresholds all of them would be looked through
# every second or two, for half a second and a third of all the time; by these, when ten million were made and stayed.
# The first is high because a collection comes when much is made at once, which is when something has happened: what
# hundreds of lost connections leave behind takes a tenth of a second to clear away, and can wait.
COLLECT_AFTER = (100_000, 10, 10)
# The loop lets go of the interpreter at every system call, and while a thread computes gets it back after this long.
SWITCH_S = 0.0005


def settle() -> None:
    """Once everything is made that stays for as long as the server runs."""
    gc.freeze()  # what is here now stays; a collection need not look at it again
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()
    sys.setswitchinterval(SWITCH_S)
