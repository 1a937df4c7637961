"""Machines reached over SSH: the connection, the link that keeps an attempt in reach, and boxes you own."""
