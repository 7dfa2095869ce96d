"""Commands that ask one question about the past: arguments in, the answer as text or JSON out."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from api import changes as changed
from api import home, questions, text
from api.cli.root import (
    ASKING,
    AsJson,
    At,
    Kind,
    KnownAt,
    Named,
    Namespace,
    Only,
    Scope,
    app,
    tell,
)
from schema import instants
from schema.instants import MAX


@app.command(rich_help_panel=ASKING, epilog="Example: `hindgraph show Deployment/shop/cart --at 2026-03-01T03:00:00Z`")
def show(
    context: typer.Context, name: Named, namespace: Namespace = None, scope: Scope = None, at: At = None,
    known_at: KnownAt = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """One object as it was: its state and its edges."""
    with home.past(context.obj) as rewind:
        key = rewind.find(name, namespace, scope)
        moment = questions.settle(rewind, key.source_scope, at, known_at)
        tell(questions.show(rewind, moment, key), text.print_object, as_json)


@app.command(rich_help_panel=ASKING, epilog="Example: `hindgraph history Deployment/shop/cart --path '**.image'`")
def history(
    context: typer.Context, name: Named, namespace: Namespace = None, scope: Scope = None,
    path: Annotated[str | None, typer.Option(help="Only these fields, as spec.**.image or spec.ports[8443].")] = None,
    at: At = None, known_at: KnownAt = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Every version of one object, oldest first; with --path, how those fields changed."""
    with home.past(context.obj) as rewind:
        key = rewind.find(name, namespace, scope)
        moment = questions.settle(rewind, key.source_scope, at, known_at)
        if path is not None:
            tell(questions.fields(rewind, moment, key, path), text.print_fields, as_json)
            return
        tell(questions.history(rewind, moment, key), text.print_history, as_json)


@app.command(
    rich_help_panel=ASKING,
    epilog="Examples: `hindgraph changes --since -30m -n shop`, `hindgraph changes --near Service/shop/cart --hops 2`, "
    "`hindgraph changes --path 'spec.template.**.image'`",
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
        moment = questions.settle(rewind, questions.scope_of(key or close, scope), at, known_at)
        start = -MAX if since is None else instants.parse_relative(since, moment.at)
        where = changed.Filter(namespace, kind, key, actor, path, close, hops)
        answer = changed.changes(
            rewind, moment, since=start, where=where, noise=noise, limit=limit, cursor=cursor
        )  # fmt: skip
        tell(answer, partial(text.print_changes, expand=members, path=path), as_json)


@app.command(
    rich_help_panel=ASKING,
    epilog="Examples: `hindgraph diff 2026-03-01T03:00:00Z`, `hindgraph diff -1h now --kind Service`",
    # An age looks like an option; what is neither is refused below.
    context_settings={"ignore_unknown_options": True},
)
def diff(
    context: typer.Context, before: Annotated[str, typer.Argument(metavar="BEFORE", help="The earlier instant.")],
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="The later one; default: the end of coverage.")
    ] = None,
    known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None, kind: Kind = None, only: Only = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """How two instants differ: objects added, removed, and fields changed."""
    for word in (before, after or ""):
        if word.startswith("--"):
            raise typer.BadParameter(f"no such option: {word}")
    with home.past(context.obj) as rewind:
        key = None if only is None else rewind.find(only, namespace, scope)
        moment = questions.settle(rewind, questions.scope_of(key, scope), after, known_at)
        start = questions.settle(rewind, moment.scope, before, known_at).at
        answer = questions.difference(rewind, moment, start, namespace=namespace, kind=kind, key=key)
        tell(answer, text.print_difference, as_json)


@app.command(rich_help_panel=ASKING, epilog="Example: `hindgraph evidence --object Deployment/shop/cart --since -30m`")
def evidence(
    context: typer.Context, since: Annotated[str | None, typer.Option(help="Only after this instant.")] = None,
    at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None, only: Only = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50, as_json: AsJson = False,
) -> None:  # fmt: skip
    """What bears on objects, such as Kubernetes Events; newest first."""
    with home.past(context.obj) as rewind:
        key = None if only is None else rewind.find(only, namespace, scope)
        moment = questions.settle(rewind, questions.scope_of(key, scope), at, known_at)
        start = -MAX if since is None else instants.parse_relative(since, moment.at)
        told = questions.evidence(rewind, moment, since=start, namespace=namespace, key=key, limit=limit)
        tell(told, text.print_evidence, as_json)


@app.command(rich_help_panel=ASKING, name="dead-letters", epilog="Example: `hindgraph dead-letters`")
def dead_letters(context: typer.Context, scope: Scope = None, as_json: AsJson = False) -> None:
    """The log records that could not be applied, and why; the log still has them."""
    with home.past(context.obj) as rewind:
        moment = questions.settle(rewind, scope)
        tell(questions.dead_letters(rewind, moment), text.print_dead_letters, as_json)


@app.command(rich_help_panel=ASKING, epilog="Example: `hindgraph coverage`")
def coverage(
    context: typer.Context, at: At = None, known_at: KnownAt = None, scope: Scope = None, as_json: AsJson = False
) -> None:
    """From when to when each group-resource was really watched."""
    with home.past(context.obj) as rewind:
        tell(
            questions.coverage(rewind, questions.settle(rewind, scope, at, known_at)), text.print_coverage, as_json
        )  # fmt: skip
