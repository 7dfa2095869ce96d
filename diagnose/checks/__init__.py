"""The checks, by what they are about. Each module ends in the list of its own."""
