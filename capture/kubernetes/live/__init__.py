"""Watching a real API server: its resources are found, listed and watched, and come out as the lines of a recording."""
