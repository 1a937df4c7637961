"""`python -m anygpu` is the command `anygpu`, for installations whose scripts are not on the PATH."""

from anygpu.cli.main import main

if __name__ == "__main__":
    main()
