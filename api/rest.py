"""The REST face under /v1: translates query parameters into a question, answers with the answer object.

Errors are RFC 9457 problems whose status comes from the error tree. Each request opens the ledger read only and closes
it, so that a replay may go on beside the server. An answer as of a given `known_at` carries an ETag.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api import changes as changed
from api import home, questions
from api.answer import Answer
from api.findings import SYMPTOMS
from api.findings import findings as found_wrong
from api.metrics import Metrics
from api.openapi import responses
from api.settings import Settings
from schema import instants
from schema.canonical import Json, hash128
from schema.errors import BadKey, HindgraphError, InputError, UnknownObject
from schema.identity import Key
from schema.instants import MAX
from store.rewind import Rewind

At = Annotated[str | None, Query(description="RFC 3339 with zone, -15m, or now; default: the end of coverage")]
KnownAt = Annotated[str | None, Query(description="as believed at this system time; default: all that was recorded")]
Scope = Annotated[str | None, Query(description="SOURCE/SCOPE; needed where several were recorded")]
Namespace = Annotated[str | None, Query(description="only this namespace")]
Kind = Annotated[str | None, Query(description="only this kind, as Deployment")]
Only = Annotated[str | None, Query(description="only this object: KIND/NAMESPACE/NAME")]
Limit = Annotated[int, Query(ge=1, le=1000, description="how many items a page")]
Named = Annotated[str, Path(description="KIND/NAMESPACE/NAME, KIND/NAME, or the full key of six segments")]


def build(settings: Settings) -> FastAPI:
    """The application over one home."""
    app = FastAPI(
        title="Hindgraph", version="1", description="What was true and what changed, from what was recorded.",
        dependencies=[Depends(_only_known)], redoc_url=None,
    )  # fmt: skip
    app.openapi = partial(_described, app)  # type: ignore[method-assign]
    metrics = Metrics(settings)

    @app.exception_handler(HindgraphError)
    def _ours(_: Request, error: HindgraphError) -> Response:
        return _problem(error.status, type(error).__name__, error.message, error.hint)

    @app.exception_handler(RequestValidationError)
    def _invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _problem(400, "InputError", f"{first['loc'][-1]}: {first['msg']}", None)

    @app.exception_handler(HTTPException)
    def _http(_: Request, error: HTTPException) -> Response:
        return _problem(error.status_code, str(error.detail), str(error.detail), "see /docs for the paths there are")

    @app.exception_handler(Exception)
    def _bug(_: Request, error: Exception) -> Response:
        return _problem(500, "Bug", f"{type(error).__name__}: this should not happen", "please report it")

    @app.middleware("http")
    async def _count(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        start = time.perf_counter()
        answer = await call(request)
        route = getattr(request.scope.get("route"), "path", "other")
        metrics.requests.labels(route, str(answer.status_code)).inc()
        metrics.seconds.labels(route).observe(time.perf_counter() - start)
        return answer

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        """Whether the home can be read."""
        with home.past(settings) as rewind:
            rewind.scopes()
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def numbers() -> Response:
        """Prometheus metrics."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/changes", responses=responses("changes"), response_class=Response)
    def changes(
        request: Request, at: At = None, known_at: KnownAt = None,
        since: Annotated[str | None, Query(description="only after this instant")] = None, scope: Scope = None,
        namespace: Namespace = None, kind: Kind = None, object: Only = None,
        actor: Annotated[str | None, Query(description="a part of the manager's or user's name")] = None,
        path: Annotated[str | None, Query(description="only changes of these fields, as spec.**.image")] = None,
        near: Annotated[str | None, Query(description="only near this object in the graph")] = None,
        hops: Annotated[int, Query(ge=0, le=6, description="edges away, with near")] = 2,
        noise: Annotated[bool, Query(description="also changes that say nothing, such as heartbeats")] = False,
        limit: Limit = 50,
        cursor: Annotated[str | None, Query(description="`next` of the page before")] = None,
    ) -> Response:  # fmt: skip
        """What changed in (since, at], newest first."""
        with home.past(settings) as rewind:
            key = None if object is None else rewind.find(object, namespace, scope)
            close = None if near is None else rewind.find(near, namespace, scope)
            moment = questions.settle(rewind, questions.scope_of(key or close, scope), at, known_at)
            start = -MAX if since is None else instants.parse_relative(since, moment.at)
            wanted = changed.Filter(namespace, kind, key, actor, path, close, hops)
            return _answer(
                request,
                changed.changes(rewind, moment, since=start, where=wanted, noise=noise, limit=limit, cursor=cursor),
            )

    @app.get("/v1/objects/{key:path}/history", responses=responses("history"), response_class=Response)
    def history(request: Request, key: Named, at: At = None, known_at: KnownAt = None, scope: Scope = None) -> Response:
        """Every version of one object, oldest first."""
        with home.past(settings) as rewind:
            if (found := _found(rewind, f"{key}/history", scope)) is not None:
                moment = questions.settle(rewind, found.source_scope, at, known_at)
                return _answer(request, questions.show(rewind, moment, found))
            found = rewind.find(key, scope=scope)
            moment = questions.settle(rewind, found.source_scope, at, known_at)
            return _answer(request, questions.history(rewind, moment, found))

    @app.get("/v1/objects/{key:path}/fields", responses=responses("fields"), response_class=Response)
    def fields(
        request: Request, key: Named,
        path: Annotated[str | None, Query(description="a field or pattern, as spec.**.image; needed")] = None,
        at: At = None, known_at: KnownAt = None, scope: Scope = None,
    ) -> Response:  # fmt: skip
        """How the fields of one object that meet a pattern changed, oldest first."""
        with home.past(settings) as rewind:
            if path is None:
                found = rewind.find(f"{key}/fields", scope=scope)
                moment = questions.settle(rewind, found.source_scope, at, known_at)
                return _answer(request, questions.show(rewind, moment, found))
            found = rewind.find(key, scope=scope)
            moment = questions.settle(rewind, found.source_scope, at, known_at)
            return _answer(request, questions.fields(rewind, moment, found, path))

    @app.get("/v1/objects/{key:path}", responses=responses("show"), response_class=Response)
    def show(request: Request, key: Named, at: At = None, known_at: KnownAt = None, scope: Scope = None) -> Response:
        """One object as it was; no item where it did not exist."""
        with home.past(settings) as rewind:
            found = rewind.find(key, scope=scope)
            moment = questions.settle(rewind, found.source_scope, at, known_at)
            return _answer(request, questions.show(rewind, moment, found))

    @app.get("/v1/diff", responses=responses("diff"), response_class=Response)
    def diff(
        request: Request, before: Annotated[str, Query(description="the earlier instant")], at: At = None,
        known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None, kind: Kind = None,
        object: Only = None,
    ) -> Response:  # fmt: skip
        """How the instants `before` and `at` differ."""
        with home.past(settings) as rewind:
            key = None if object is None else rewind.find(object, namespace, scope)
            moment = questions.settle(rewind, questions.scope_of(key, scope), at, known_at)
            start = questions.settle(rewind, moment.scope, before, known_at).at
            told = questions.difference(rewind, moment, start, namespace=namespace, kind=kind, key=key)
            return _answer(request, told)

    @app.get("/v1/symptoms", responses=responses("symptoms"), response_class=Response)
    def symptoms(
        request: Request, at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None
    ) -> Response:
        """What is visibly wrong at an instant, and the change that made it so."""
        with home.past(settings) as rewind:
            moment = questions.settle(rewind, scope, at, known_at)
            return _answer(request, found_wrong(rewind, moment, namespace, SYMPTOMS))

    @app.get("/v1/findings", responses=responses("findings"), response_class=Response)
    def findings(
        request: Request, at: At = None, known_at: KnownAt = None, scope: Scope = None, namespace: Namespace = None
    ) -> Response:
        """What all checks find at an instant: what is wrong, how it comes about, and the changes that made it so."""
        with home.past(settings) as rewind:
            moment = questions.settle(rewind, scope, at, known_at)
            return _answer(request, found_wrong(rewind, moment, namespace))

    @app.get("/v1/evidence", responses=responses("evidence"), response_class=Response)
    def evidence(
        request: Request, at: At = None, known_at: KnownAt = None,
        since: Annotated[str | None, Query(description="only after this instant")] = None, scope: Scope = None,
        namespace: Namespace = None, object: Only = None, limit: Limit = 50,
    ) -> Response:  # fmt: skip
        """What bears on objects, such as Kubernetes Events; newest first."""
        with home.past(settings) as rewind:
            key = None if object is None else rewind.find(object, namespace, scope)
            moment = questions.settle(rewind, questions.scope_of(key, scope), at, known_at)
            start = -MAX if since is None else instants.parse_relative(since, moment.at)
            told = questions.evidence(rewind, moment, since=start, namespace=namespace, key=key, limit=limit)
            return _answer(request, told)

    @app.get("/v1/dead-letters", responses=responses("dead-letters"), response_class=Response)
    def dead_letters(request: Request, scope: Scope = None) -> Response:
        """The log records that could not be applied, and why."""
        with home.past(settings) as rewind:
            return _answer(request, questions.dead_letters(rewind, questions.settle(rewind, scope)))

    @app.get("/v1/coverage", responses=responses("coverage"), response_class=Response)
    def coverage(request: Request, at: At = None, known_at: KnownAt = None, scope: Scope = None) -> Response:
        """From when to when each group-resource was really watched."""
        with home.past(settings) as rewind:
            return _answer(request, questions.coverage(rewind, questions.settle(rewind, scope, at, known_at)))

    return app


def _found(rewind: Rewind, text: str, scope: str | None) -> Key | None:
    """The object that a whole path names, where one is called as one of its views."""
    try:
        return rewind.find(text, scope=scope)
    except (BadKey, UnknownObject):
        return None


def _only_known(request: Request) -> None:
    """A misspelt parameter would be an unfiltered answer: refuse it."""
    known = {one.alias for one in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise InputError(f"no parameter {name!r} here", hint=f"there is: {', '.join(near or sorted(known))}")


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI page without the 422 that FastAPI adds and we never send."""
    page = FastAPI.openapi(app)
    for path in page["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        page.get("components", {}).get("schemas", {}).pop(name, None)
    return page


def _answer(request: Request, answer: Answer) -> Response:
    body = orjson.dumps(answer.as_json())
    if not answer.fixed:
        return Response(body, media_type="application/json")
    tag = f'"{hash128(body.decode())}"'
    if tag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


def _problem(status: int, title: str, detail: str, hint: str | None) -> Response:
    body: dict[str, Json] = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    if hint is not None:
        body["hint"] = hint
    return Response(orjson.dumps(body), status_code=status, media_type="application/problem+json")
