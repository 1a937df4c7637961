"""Where the `anygpu` command begins: Ctrl-C while it is still being imported is no traceback either."""

import sys


def main() -> None:
    try:
        from anygpu.cli.root import main as begun
    except KeyboardInterrupt:
        sys.exit(130)
    begun()


if __name__ == "__main__":
    main()
