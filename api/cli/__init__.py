"""The command line: translates arguments into a question, and its answer into text or JSON.

Exit codes: 0 answered; 1 `verify` found a difference, `check` something wrong, `eval` less than asked for; 2 bad input;
3 the recorded past cannot answer; 65 bad data; 74 the store cannot be used; 75 another writer holds it.
A command is a function in a module of this package that
registers with `root.app`; a new module is named here. Questions are `api.questions`, text is `api.text`.
"""

from api.cli import asking, diagnosing, keeping, serving
from api.cli.root import app, main

__all__ = ["app", "asking", "diagnosing", "keeping", "main", "serving"]
