"""Sources to records: reading, redacting and comparing what a source sent. Storing it is left to `store`."""
