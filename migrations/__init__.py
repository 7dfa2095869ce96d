"""Migrations of the stores on disk: numbered SQL files per room, applied in order, each exactly once.

`migrate` brings one database to the newest schema of its room (`log`, `ledger`). It goes forward only, is safe to run
again and by two processes at once, and refuses what it does not understand: a database written by a newer Hindgraph,
or one whose applied migrations are not the files shipped here. What the tables mean is the business of their rooms.
"""

from migrations.runner import HINTS, Migration, migrate, migrations_of, pending

__all__ = ["HINTS", "Migration", "migrate", "migrations_of", "pending"]
