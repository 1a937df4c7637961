"""One suite for every seam, which every adapter passes: subclass it and give the fixture it names."""
