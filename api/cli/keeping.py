"""Commands that write to a home or check it: replay, project, verify, retain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from api import home, replaying, retaining, text
from api.cli.root import (
    KEEPING,
    AsJson,
    app,
    console,
    progress,
    tell_json,
)
from schema import instants
from store.projector import ProjectStats

_BAD = 5
"""How many bad lines of a file are told as text."""


@app.command(rich_help_panel=KEEPING, epilog="Example: `hindgraph --home ./past replay monday.jsonl.gz`")
def replay(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recordings, oldest first.")],
    scope: Annotated[str | None, typer.Option(help="Name of the scope, in place of the recording's own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read recordings into the log and project them. A file that was replayed before adds nothing."""
    with progress("replaying") as step:
        told, stats = replaying.replay(context.obj, files, scope, step)
    if as_json:
        tell_json(
            {
                "files": [
                    {
                        "file": one.file,
                        "known": one.known,
                        "added": one.added,
                        "bad": [{"line": row.number, "reason": row.reason} for row in one.bad],
                    }
                    for one in told
                ],
                **asdict(stats),
            }
        )
        return
    out = console()
    for one in told:
        out.print(
            f"{one.file}: {one.added} records added, {one.known} were there, {len(one.bad)} bad lines", markup=False
        )
        for row in one.bad[:_BAD]:
            out.print(f"  line {row.number}: {row.reason}", markup=False)
        if len(one.bad) > _BAD:
            out.print(f"  and {len(one.bad) - _BAD} more (--json has all)")
    _projected(stats)


@app.command(rich_help_panel=KEEPING, epilog="Example: `hindgraph project`")
def project(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring the ledger up to the log, as after a crash or an upgrade; one that is gone is made anew."""
    with progress("projecting") as step:
        stats = replaying.catch_up(context.obj, step)
    if as_json:
        tell_json(asdict(stats))
    else:
        _projected(stats)


def _projected(stats: ProjectStats) -> None:
    out = console()
    out.print(f"projected: {stats.applied} applied, {stats.duplicates} duplicates, {stats.dead} dead letters")
    if stats.dead:
        out.print("see: hindgraph dead-letters")


@app.command(rich_help_panel=KEEPING, epilog="Example: `hindgraph verify`")
def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Is the ledger what the log says? Replays the log beside it and compares digests; exit code 1 if not."""
    with progress("verifying") as step:
        verdict = home.check(context.obj, step)
    if as_json:
        tell_json(
            {
                "ok": verdict.ok,
                "ledger_digest": verdict.ledger_digest,
                "replay_digest": verdict.replay_digest,
                "records": verdict.records,
                "behind": verdict.behind,
            }
        )
    else:
        console().print(f"{'ok' if verdict.ok else 'DIFFERENT'}: {verdict.records} records, {verdict.ledger_digest}")
        if verdict.behind:
            console().print(f"{verdict.behind} more in the log are not projected yet: `hindgraph project` goes on")
    if not verdict.ok:
        raise typer.Exit(1)


@app.command(rich_help_panel=KEEPING, epilog="Example: `hindgraph retain --older-than 30d --dry-run`")
def retain(
    context: typer.Context,
    older_than: Annotated[str, typer.Option(help="An age (30d, 12h), back from the end of coverage, or an instant.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what lies below a horizon; at or above it every answer stays what it was, below it there is none."""
    with progress("retaining") as step:
        told = (retaining.foresee if dry_run else retaining.drop)(context.obj, older_than, step)
    if as_json:
        made = told.plan
        tell_json(
            {
                "dry_run": dry_run,
                "horizons": {scope: instants.show(at) for scope, at in made.horizons.items()},
                "records": made.records,
                "dropped": {**made.dropped},
                "states": made.states,
                "held": made.held,
                "bytes": {"before": told.before, "after": told.after},
            }
        )
    else:
        text.print_retained(console(), told)
