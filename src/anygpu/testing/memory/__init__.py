"""In-memory implementations of the stores: journal, reports, blobs."""
