"""Routes for jobs: submit and control them, and read their output."""
