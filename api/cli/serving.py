"""Commands that run on their own: the REST service, the demo."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from api import demo as story
from api import home
from api.cli.root import (
    SERVING,
    app,
    console,
)


@app.command(
    rich_help_panel=SERVING, epilog="Example: `hindgraph serve --port 8080`, then `curl localhost:8080/v1/changes`"
)
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


@app.command(rich_help_panel=SERVING, epilog="Example: `hindgraph demo`")
def demo() -> None:
    """Replay a small recorded story into a temporary folder and tell it; no cluster needed."""
    story.tell(console(), Path(mkdtemp(prefix="hindgraph-demo-")))
