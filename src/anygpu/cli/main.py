"""Entry point of the `anygpu` command. Ctrl-C during the imports prints no traceback."""

import sys


def main() -> None:
    try:
        from anygpu.cli.root import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
