"""Real servers and proxies on loopback for tests: agent listener, SSH hosts, unreliable proxies."""
