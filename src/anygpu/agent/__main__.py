"""Run the agent: `python -I -S .../anygpu/agent/__main__.py <directory>` or `python -m anygpu.agent <directory>`."""

import sys

if not __package__:
    # Started by its path, which is fastest: the package's parent directory is not on sys.path yet.
    sys.path.insert(0, __file__.rsplit("/", 3)[0])
    __package__ = "anygpu.agent"

from anygpu.agent.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
