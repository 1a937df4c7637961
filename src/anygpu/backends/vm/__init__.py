"""Run attempts on rented machines. All VM providers share this code."""
