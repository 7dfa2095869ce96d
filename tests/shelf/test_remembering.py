"""A recorder starts where the log ends, whatever became of its shelf."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from api.remembering import remember
from api.settings import Settings
from capture.kubernetes.shelf import Shelf
from capture.redact import Redactor
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project
from tests.reflector.lines import CMS, RESOURCES, T0, S, changes, cm, covers, ev, lst, reflector, run
from tests.shelf.test_shelf import held

REDACTOR = Redactor(b"k" * 32)
FIRST = [lst(0, cm(), cm("b", uid="u2")), ev(5, "MODIFIED", cm(rv="101", data="2"))]
MORE = [ev(6, "MODIFIED", cm(rv="102", data="3")), ev(7, "DELETED", cm("b", uid="u2", rv="103"))]


def opened(log: SqliteLog, ledger: SqliteLedger, home: Path) -> Shelf:
    return remember(Settings(home=home), "lab", REDACTOR, log, ledger, RESOURCES, [CMS])


@pytest.mark.parametrize("shelf", ["kept", "behind", "gone", "ahead"])
@pytest.mark.parametrize("projected", [0, 1, 2])
def test_it_goes_on_where_the_log_ends(tmp_path: Path, shelf: str, projected: int) -> None:
    settings = Settings(home=tmp_path)
    path = settings.recorder("lab")
    with SqliteLog(settings.log) as log, closing(SqliteLedger(settings.ledger)) as ledger:
        with opened(log, ledger, tmp_path) as memory:
            core = reflector(memory)
            for part, lines in enumerate((FIRST, MORE)):
                log.append([(one, T0) for one in run(*lines, core=core)])
                if part == 0 or shelf != "behind":
                    memory.commit(log.end() + 100 * (shelf == "ahead"))
                if part < projected:
                    project(log, ledger)
            known = {key: one.prepared.digest for key, one in held(memory).items()}
        if shelf == "gone":
            path.unlink()
        with opened(log, ledger, tmp_path) as memory:
            assert {key: one.prepared.digest for key, one in held(memory).items()} == known
            assert memory.position == log.end()
            core = reflector(memory)
            assert covers(core.lost([CMS], T0 + 60 * S, "away")) == [("gap", "away")]
            (change,) = changes(run(lst(61, cm(rv="110", data="4")), core=core))
            assert (change.op, change.base) == ("update", known[change.object.key])
            assert change.valid.not_before <= T0 + 6 * S
