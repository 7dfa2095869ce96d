"""Log, projector, ledger and rewind: everything between a record and an answer about the past."""
