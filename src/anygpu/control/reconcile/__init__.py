"""Reconcile attempts: compare the recorded state with what provider and agent report, and record the differences."""
