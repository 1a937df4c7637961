"""Sample data for tests: job events, manifests."""
