"""Parsers for the output of one framework each."""
