"""Reconcile attempts: compare the journal with what provider and agent report, and record events."""
