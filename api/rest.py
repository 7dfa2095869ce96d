"""The REST face under /v1: translates query parameters into a question, answers with the answer object.

Errors are RFC 9457 problems whose status comes from the error tree. Each request opens the ledger read only and closes
it, so that a replay may go on beside the server.
"""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from api import home, questions
from api.answer import Answer
from api.settings import Settings
from schema import instants
from schema.canonical import Json
from schema.errors import HindgraphError
from schema.instants import MAX

At = Annotated[str | None, Query(description="RFC 3339 with zone, -15m, or now; default: the end of coverage")]
KnownAt = Annotated[str | None, Query(description="as believed at this system time")]
Scope = Annotated[str | None, Query(description="SOURCE/SCOPE; needed where several were recorded")]
Text = Annotated[str | None, Query()]
_PROBLEM: dict[int | str, dict[str, Any]] = {
    code: {"description": "RFC 9457 problem", "content": {"application/problem+json": {}}}
    for code in (400, 404, 409, 410, 503)
}


def build(settings: Settings) -> FastAPI:
    """The application over one home."""
    app = FastAPI(title="Hindgraph", version="1", description="What was true and what changed, from what was recorded.")

    @app.exception_handler(HindgraphError)
    def _ours(_: Request, error: HindgraphError) -> Response:
        return _problem(error.status, type(error).__name__, error.message, error.hint)

    @app.exception_handler(RequestValidationError)
    def _invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _problem(400, "InputError", f"{first['loc'][-1]}: {first['msg']}", None)

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        """Whether the home can be read."""
        with home.past(settings) as rewind:
            rewind.scopes()
        return {"status": "ok"}

    @app.get("/v1/changes", responses=_PROBLEM)
    def changes(
        at: At = None, known_at: KnownAt = None, since: Text = None, scope: Scope = None, namespace: Text = None,
        kind: Text = None, object: Text = None, actor: Text = None, noise: bool = False,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50, cursor: Text = None,
    ) -> Response:  # fmt: skip
        """What changed in (since, at], newest first."""
        with home.past(settings) as rewind:
            key = None if object is None else rewind.find(object, namespace)
            where = f"{key.source}/{key.scope}" if key else scope
            moment = questions.settle(rewind, where, at, known_at)
            start = -MAX if since is None else instants.parse_relative(since, moment.at)
            wanted = questions.Filter(namespace, kind, key, actor)
            return _answer(
                questions.changes(rewind, moment, since=start, where=wanted, noise=noise, limit=limit, cursor=cursor)
            )

    @app.get("/v1/objects/{key:path}/history", responses=_PROBLEM)
    def history(key: str, at: At = None, known_at: KnownAt = None) -> Response:
        """Every version of one object, oldest first."""
        with home.past(settings) as rewind:
            found = rewind.find(key)
            moment = questions.settle(rewind, f"{found.source}/{found.scope}", at, known_at)
            return _answer(questions.history(rewind, moment, found))

    @app.get("/v1/objects/{key:path}", responses=_PROBLEM)
    def show(key: str, at: At = None, known_at: KnownAt = None) -> Response:
        """One object as it was; no item where it did not exist."""
        with home.past(settings) as rewind:
            found = rewind.find(key)
            moment = questions.settle(rewind, f"{found.source}/{found.scope}", at, known_at)
            return _answer(questions.show(rewind, moment, found))

    @app.get("/v1/diff", responses=_PROBLEM)
    def diff(
        before: str, at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Text = None,
        kind: Text = None,
    ) -> Response:  # fmt: skip
        """How the instants `before` and `at` differ."""
        with home.past(settings) as rewind:
            moment = questions.settle(rewind, scope, at, known_at)
            start = questions.settle(rewind, moment.scope, before, known_at).at
            return _answer(
                questions.difference(rewind, moment, start, questions.Filter(namespace, kind, None))
            )  # fmt: skip

    @app.get("/v1/coverage", responses=_PROBLEM)
    def coverage(at: At = None, known_at: KnownAt = None, scope: Scope = None) -> Response:
        """From when to when each group-resource was really watched."""
        with home.past(settings) as rewind:
            return _answer(questions.coverage(rewind, questions.settle(rewind, scope, at, known_at)))

    return app


def _answer(answer: Answer) -> Response:
    return Response(orjson.dumps(answer.as_json()), media_type="application/json")


def _problem(status: int, title: str, detail: str, hint: str | None) -> Response:
    body: dict[str, Json] = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    if hint is not None:
        body["hint"] = hint
    return Response(orjson.dumps(body), status_code=status, media_type="application/problem+json")
