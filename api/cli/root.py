"""What all commands share: the application with its global options, options that mean the same everywhere, how an
answer, an error and progress are shown.

Commands are in the modules beside this one, each registering with `app`; `api.cli` imports them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import orjson
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from api import text
from api.answer import Answer
from api.settings import Settings
from schema.canonical import Json
from schema.errors import HindgraphError, InputError, StoreError

KEEPING, ASKING, JUDGING, SERVING = "Record and keep", "Ask", "Judge", "Show and serve"
"""The groups under which `--help` lists commands."""

app = typer.Typer(
    help="What was true, what changed before, from what was recorded.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

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


def main() -> None:
    """The console script: an error of ours is one line on stderr and its exit code."""
    try:
        app()
    except HindgraphError as error:
        fail(str(error), error.exit_code)
    except UnicodeEncodeError:
        fail("an argument is not UTF-8", InputError.exit_code)
    except BrokenPipeError:
        # Whoever read the answer went away; nothing is left to say, not even by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except OSError as error:
        fail(f"{error.filename or 'output'}: {error.strerror}", StoreError.exit_code)


def fail(words: str, code: int) -> NoReturn:
    Console(stderr=True).print(f"hindgraph: {words}", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(code) from None


def tell(answer: Answer, show: Callable[[Console, Answer], None], as_json: bool) -> None:
    if as_json:
        tell_json(answer.as_json())
        return
    out = console()
    show(out, answer)
    text.print_footer(out, answer)


def console() -> Console:
    """Standard output; wide where it is a file or a pipe, as nobody can widen that."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=180)


def tell_json(value: dict[str, Json]) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(what), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.advance(task, count)
