"""Read metrics and progress from the output of scripts that do not use anygpu."""
