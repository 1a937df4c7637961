"""Read the user's Python and configuration files, and find the values of settings in them."""
