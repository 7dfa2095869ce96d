"""Commands that judge: what the checks find at an instant, and how well that meets a known truth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from api import evaluating, home, questions, text
from api.cli.root import JUDGING, AsJson, At, KnownAt, Namespace, Scope, app, console, progress, tell, tell_json
from api.findings import SYMPTOMS, findings
from schema.canonical import Json


@app.command(rich_help_panel=JUDGING, epilog="Example: `hindgraph symptoms --at 2026-03-01T03:00:00Z -n shop`")
def symptoms(
    context: typer.Context, at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """What is visibly wrong at an instant, and the change that made it so."""
    with home.past(context.obj) as rewind:
        moment = questions.settle(rewind, scope, at, known_at)
        tell(findings(rewind, moment, namespace, SYMPTOMS), text.print_findings, as_json)


@app.command(rich_help_panel=JUDGING, epilog="Example: `hindgraph check --at -15m -n shop`")
def check(
    context: typer.Context, at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """What all checks find at an instant: what is wrong, how it comes about, what made it so."""
    with home.past(context.obj) as rewind:
        moment = questions.settle(rewind, scope, at, known_at)
        answer = findings(rewind, moment, namespace)
        tell(answer, text.print_findings, as_json)
    if answer.items:
        raise typer.Exit(1)


@app.command(name="eval", rich_help_panel=JUDGING, epilog="Example: `hindgraph eval ./recordings --min 0.9`")
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Recordings, each with its truth file beside it.")],
    least: Annotated[
        float, typer.Option("--min", min=0, max=1, help="Exit code 1 where a smaller share is answered right.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """How well recordings with a known truth are answered: silence where all is well, else the cause and its field."""
    files = evaluating.recordings(folder)
    with progress("evaluating") as step:
        marked = evaluating.evaluate(files, step)
    share = sum(one.score.right for one in marked) / len(marked)
    if as_json:
        items: list[Json] = [
            {
                "file": one.file, **asdict(one.score), "right": one.score.right, "checks": [*one.checks],
                "seconds": round(one.seconds, 3),
            }
            for one in marked
        ]  # fmt: skip
        tell_json({"right": share, "items": items})
    else:
        text.print_marked(console(), marked)
    if share < least:
        raise typer.Exit(1)
