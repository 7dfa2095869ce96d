"""Capture from Kubernetes: watch lines in, records of the log out."""
