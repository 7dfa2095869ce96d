"""The vocabulary of Hindgraph: records, identities, instants, closed kinds and predicates, tables, errors. No I/O."""
