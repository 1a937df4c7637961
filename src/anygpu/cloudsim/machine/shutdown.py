"""Replacements for `shutdown`, `halt`, `poweroff` and `sudo` that come first on the PATH of machines.

The replacements call the machine's metadata address, which ends the simulated machine. A script that uses the
full path (`/sbin/shutdown`) affects the real computer.
"""

import sys

_SHUTDOWN = '''#!{python} -ISE
"""shutdown [-h|-P|-H|-r] [-c] [now|+minutes|hh:mm]"""
import os, sys, time, urllib.request

def after_s(when):
    if when == "now":
        return 0
    if ":" in when:
        hours, minutes = when.split(":")
        due = int(hours) * 3600 + int(minutes) * 60
        now = time.localtime()
        return (due - now.tm_hour * 3600 - now.tm_min * 60 - now.tm_sec) % 86400
    return 60 * float(when.lstrip("+"))

words = [word for word in sys.argv[1:] if not word.startswith("-")]
flags = [word for word in sys.argv[1:] if word.startswith("-")]
immediate = os.path.basename(sys.argv[0]) in ("halt", "poweroff")
if "-c" in flags:
    path = "/sim/power/cancel"
else:
    try:
        path = "/sim/power/off?after_s=%s" % after_s("now" if immediate else (words or ["+1"])[0])
    except ValueError:
        sys.exit("Failed to parse time specification: " + words[0])
    if "-r" in flags or "--reboot" in flags:
        sys.exit("The simulated machines do not reboot.")
request = urllib.request.Request(os.environ["ANYGPU_SIM_METADATA"] + path, method="POST")
print(urllib.request.urlopen(request, timeout=10).read().decode(), end="")
'''

# Simulated machines have one user: sudo runs the command unchanged.
_SUDO = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    -u|-g|-p|-C) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
  esac
done
exec "$@"
"""

_SHUTDOWN_SCRIPT = _SHUTDOWN.format(python=sys.executable)
COMMANDS = {
    "shutdown": _SHUTDOWN_SCRIPT,
    "halt": _SHUTDOWN_SCRIPT,
    "poweroff": _SHUTDOWN_SCRIPT,
    "sudo": _SUDO,
}
