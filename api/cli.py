"""The command line: translates arguments into a question, and its answer into text or JSON.

Exit codes: 0 answered; 1 `verify` found a difference; 2 bad input; 3 the recorded past cannot answer; 65 bad data;
74 the store cannot be used; 75 another writer holds it. Questions are `api.questions`, tables `api.text`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from api import changes as changed
from api import demo as story
from api import home, questions, replaying, retaining, text
from api import symptoms as visible
from api.answer import Answer
from api.settings import Settings
from schema import instants
from schema.canonical import Json
from schema.errors import HindgraphError, InputError, StoreError
from schema.identity import Key
from schema.instants import MAX

app = typer.Typer(
    help="What was true, what changed before, from what was recorded.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_BAD = 5

AsJson = Annotated[bool, typer.Option("--json", help="As JSON; its names are in docs/answers.md.")]
At = Annotated[
    str | None,
    typer.Option(help="RFC 3339 with zone. Default: the end of coverage, from which `now` and -15m count as well."),
]
KnownAt = Annotated[str | None, typer.Option(help="As believed at this system time; default: all that was recorded.")]
Scope = Annotated[str | None, typer.Option(help="SOURCE/SCOPE; needed where several were recorded.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")]
Named = Annotated[str, typer.Argument(metavar="OBJECT", help="KIND/NAMESPACE/NAME, KIND/NAME, or the full key.")]
Kind = Annotated[str | None, typer.Option(help="Only this kind, as Deployment.")]
Only = Annotated[str | None, typer.Option("--object", help="Only this object: KIND/NAMESPACE/NAME.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hindgraph {version('hindgraph')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    home: Annotated[Path | None, typer.Option(help="Folder of log and ledger; HINDGRAPH_HOME.")] = None,
) -> None:
    settings = Settings()
    context.obj = settings if home is None else Settings(home=home)


@app.command(epilog="Example: `hindgraph --home ./past replay monday.jsonl.gz`")
def replay(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recordings, oldest first.")],
    scope: Annotated[str | None, typer.Option(help="Name of the scope, in place of the recording's own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read recordings into the log and project them. A file that was replayed before adds nothing."""
    with _progress("replaying") as step:
        told, stats = replaying.replay(context.obj, files, scope, step)
    if as_json:
        _json(
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
                "applied": stats.applied,
                "dead": stats.dead,
                "duplicates": stats.duplicates,
                "position": stats.position,
            }
        )
        return
    console = _console()
    for one in told:
        console.print(
            f"{one.file}: {one.added} records added, {one.known} were there, {len(one.bad)} bad lines", markup=False
        )
        for row in one.bad[:_BAD]:
            console.print(f"  line {row.number}: {row.reason}", markup=False)
        if len(one.bad) > _BAD:
            console.print(f"  and {len(one.bad) - _BAD} more (--json has all)")
    console.print(f"projected: {stats.applied} applied, {stats.duplicates} duplicates, {stats.dead} dead letters")
    if stats.dead:
        console.print("see: hindgraph dead-letters")


@app.command(epilog="Example: `hindgraph show Deployment/shop/cart --at 2026-03-01T03:00:00Z`")
def show(
    context: typer.Context, name: Named, namespace: Namespace = None, scope: Scope = None, at: At = None,
    known_at: KnownAt = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """One object as it was: its state and its edges."""
    with home.past(context.obj) as rewind:
        key = rewind.find(name, namespace, scope)
        moment = questions.settle(rewind, f"{key.source}/{key.scope}", at, known_at)
        _tell(questions.show(rewind, moment, key), text.print_object, as_json)


@app.command(epilog="Example: `hindgraph history Deployment/shop/cart --path '**.image'`")
def history(
    context: typer.Context, name: Named, namespace: Namespace = None, scope: Scope = None,
    path: Annotated[str | None, typer.Option(help="Only these fields, as spec.**.image or spec.ports[8443].")] = None,
    at: At = None, known_at: KnownAt = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Every version of one object, oldest first; with --path, how those fields changed."""
    with home.past(context.obj) as rewind:
        key = rewind.find(name, namespace, scope)
        moment = questions.settle(rewind, f"{key.source}/{key.scope}", at, known_at)
        if path is not None:
            _tell(questions.fields(rewind, moment, key, path), text.print_fields, as_json)
            return
        _tell(questions.history(rewind, moment, key), text.print_history, as_json)


@app.command(
    epilog="Examples: `hindgraph changes --since -30m -n shop`, `hindgraph changes --near Service/shop/cart --hops 2`, "
    "`hindgraph changes --path 'spec.template.**.image'`"
)
def changes(
    context: typer.Context, since: Annotated[str | None, typer.Option(help="Only after this instant.")] = None,
    at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None, kind: Kind = None,
    only: Only = None,
    actor: Annotated[str | None, typer.Option(help="Only by this tool or user: a part of its name.")] = None,
    path: Annotated[str | None, typer.Option(help="Only changes of these fields, as spec.**.image.")] = None,
    near: Annotated[str | None, typer.Option(help="Only near this object in the graph: KIND/NAMESPACE/NAME.")] = None,
    hops: Annotated[int, typer.Option(min=0, max=6, help="How near: edges away, with --near.")] = 2,
    noise: Annotated[bool, typer.Option(help="Also changes that say nothing, such as heartbeats.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many changes with their consequences.")] = 50,
    members: Annotated[bool, typer.Option(help="A row for each consequence (JSON always has them).")] = False,
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended.")] = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """What changed before an instant, newest first; what controllers made of it stands under it."""
    with home.past(context.obj) as rewind:
        key = None if only is None else rewind.find(only, namespace, scope)
        close = None if near is None else rewind.find(near, namespace, scope)
        moment = questions.settle(rewind, _scope(key or close, scope), at, known_at)
        start = -MAX if since is None else instants.parse_relative(since, moment.at)
        where = changed.Filter(namespace, kind, key, actor, path, close, hops)
        answer = changed.changes(
            rewind, moment, since=start, where=where, noise=noise, limit=limit, cursor=cursor
        )  # fmt: skip
        _tell(answer, partial(text.print_changes, expand=members, path=path), as_json)


@app.command(
    epilog="Examples: `hindgraph diff 2026-03-01T03:00:00Z`, `hindgraph diff -- -1h now` (an age needs `--` before it)"
)
def diff(
    context: typer.Context, before: Annotated[str, typer.Argument(help="The earlier instant.")],
    after: Annotated[str | None, typer.Argument(help="The later one; default: the end of coverage.")] = None,
    known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None, kind: Kind = None, only: Only = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """How two instants differ: objects added, removed, and fields changed."""
    with home.past(context.obj) as rewind:
        key = None if only is None else rewind.find(only, namespace, scope)
        moment = questions.settle(rewind, _scope(key, scope), after, known_at)
        start = questions.settle(rewind, moment.scope, before, known_at).at
        answer = questions.difference(rewind, moment, start, namespace=namespace, kind=kind, key=key)
        _tell(answer, text.print_difference, as_json)


@app.command(epilog="Example: `hindgraph symptoms --at 2026-03-01T03:00:00Z -n shop`")
def symptoms(
    context: typer.Context, at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """What is visibly wrong at an instant, and the change that made it so."""
    with home.past(context.obj) as rewind:
        moment = questions.settle(rewind, scope, at, known_at)
        _tell(visible.symptoms(rewind, moment, namespace), text.print_symptoms, as_json)


@app.command(epilog="Example: `hindgraph evidence --object Deployment/shop/cart --since -30m`")
def evidence(
    context: typer.Context, since: Annotated[str | None, typer.Option(help="Only after this instant.")] = None,
    at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None, only: Only = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50, as_json: AsJson = False,
) -> None:  # fmt: skip
    """What bears on objects, such as Kubernetes Events; newest first."""
    with home.past(context.obj) as rewind:
        key = None if only is None else rewind.find(only, namespace, scope)
        moment = questions.settle(rewind, _scope(key, scope), at, known_at)
        start = -MAX if since is None else instants.parse_relative(since, moment.at)
        told = questions.evidence(rewind, moment, since=start, namespace=namespace, key=key, limit=limit)
        _tell(told, text.print_evidence, as_json)


@app.command(name="dead-letters", epilog="Example: `hindgraph dead-letters`")
def dead_letters(context: typer.Context, scope: Scope = None, as_json: AsJson = False) -> None:
    """The log records that could not be applied, and why; the log still has them."""
    with home.past(context.obj) as rewind:
        moment = questions.settle(rewind, scope)
        _tell(questions.dead_letters(rewind, moment), text.print_dead_letters, as_json)


@app.command(epilog="Example: `hindgraph coverage`")
def coverage(
    context: typer.Context, at: At = None, known_at: KnownAt = None, scope: Scope = None, as_json: AsJson = False
) -> None:
    """From when to when each group-resource was really watched."""
    with home.past(context.obj) as rewind:
        _tell(
            questions.coverage(rewind, questions.settle(rewind, scope, at, known_at)), text.print_coverage, as_json
        )  # fmt: skip


@app.command(epilog="Example: `hindgraph verify`")
def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Is the ledger what the log says? Replays the log beside it and compares digests; exit code 1 if not."""
    with _progress("verifying") as step:
        verdict = home.check(context.obj, step)
    if as_json:
        _json(
            {
                "ok": verdict.ok,
                "ledger_digest": verdict.ledger_digest,
                "replay_digest": verdict.replay_digest,
                "records": verdict.records,
                "behind": verdict.behind,
            }
        )
    else:
        _console().print(f"{'ok' if verdict.ok else 'DIFFERENT'}: {verdict.records} records, {verdict.ledger_digest}")
        if verdict.behind:
            _console().print(f"{verdict.behind} more in the log are not projected yet: replay the file again to go on")
    if not verdict.ok:
        raise typer.Exit(1)


@app.command(epilog="Example: `hindgraph retain --older-than 30d --dry-run`")
def retain(
    context: typer.Context,
    older_than: Annotated[str, typer.Option(help="An age (30d, 12h), back from the end of coverage, or an instant.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what lies below a horizon; at or above it every answer stays what it was, below it there is none."""
    with _progress("retaining") as step:
        told = (retaining.foresee if dry_run else retaining.drop)(context.obj, older_than, step)
    if as_json:
        made = told.plan
        _json(
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
        text.print_retained(_console(), told)


@app.command(epilog="Example: `hindgraph serve --port 8080`, then `curl localhost:8080/v1/changes`")
def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
) -> None:
    """Answer the same questions over HTTP; the OpenAPI page is at /docs."""
    # Only this command needs a web framework, whose import would double the time of every other.
    import uvicorn  # noqa: PLC0415

    from api.rest import build  # noqa: PLC0415

    with home.past(context.obj):
        pass  # a home without a past is told now, not at the first request
    uvicorn.run(build(context.obj), host=host, port=port)


@app.command(epilog="Example: `hindgraph demo`")
def demo() -> None:
    """Replay a small recorded story into a temporary folder and tell it; no cluster needed."""
    story.tell(_console(), Path(mkdtemp(prefix="hindgraph-demo-")))


def main() -> None:
    """The console script: an error of ours is one line on stderr and its exit code."""
    try:
        app()
    except HindgraphError as error:
        _fail(str(error), error.exit_code)
    except UnicodeEncodeError:
        _fail("an argument is not UTF-8", InputError.exit_code)
    except BrokenPipeError:
        # Whoever read the answer went away; nothing is left to say, not even by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror}", StoreError.exit_code)


def _fail(words: str, code: int) -> NoReturn:
    Console(stderr=True).print(f"hindgraph: {words}", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(code) from None


def _scope(key: Key | None, scope: str | None) -> str | None:
    return scope if key is None else f"{key.source}/{key.scope}"


def _tell(answer: Answer, show: Callable[[Console, Answer], None], as_json: bool) -> None:
    if as_json:
        _json(answer.as_json())
        return
    console = _console()
    show(console, answer)
    text.print_footer(console, answer)


def _console() -> Console:
    """Standard output; wide where it is a file or a pipe, as nobody can widen that."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=180)


def _json(value: dict[str, Json]) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(what), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.advance(task, count)
