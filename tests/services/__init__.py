"""Real services for tests. Where each comes from is decided here; nothing else knows which it was."""
