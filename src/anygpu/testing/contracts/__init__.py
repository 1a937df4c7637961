"""One contract suite for each interface. An adapter's tests subclass it and provide its fixture."""
