"""The demo: a small recorded stream replayed into a home of its own, and the story it tells in four questions.

It needs no cluster and no network. The questions are the ordinary ones; only the choice of the object is made here:
the Deployment whose configuration changed last.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from api import changes as changed
from api import home, questions, replaying, text
from api.settings import Settings
from schema import instants
from schema.canonical import Json
from schema.errors import UnknownObject
from schema.instants import SECOND

STORY = Path(__file__).parent.parent / "demo" / "long_story.jsonl.gz"


def tell(console: Console, settings: Settings) -> None:
    """Replay the story into the home and tell it."""
    told, stats = replaying.replay(settings, [STORY])
    console.print(f"Replayed {told[0].added} records of a cluster, {stats.applied} applied.\n", highlight=False)
    with home.past(settings) as rewind:
        moment = questions.settle(rewind)
        end = instants.show(moment.at)
        deployments = changed.changes(rewind, moment, where=changed.Filter(kind="Deployment"), limit=1000).items
        led = [item for item in deployments if item["op"] == "update" and _kind(item) == "Deployment"]
        if not led:
            raise UnknownObject("the recording changes no Deployment")
        console.print(f"[bold]What changed before {end}?[/bold]")
        text.print_changes(console, led[:5])
        last = led[0]["id"]
        change = rewind.change(str(last), moment.known_at)
        assert change is not None
        key = change.change.object.key
        name = f"{key.kind}/{key.namespace}/{key.name}"
        before = change.vf - SECOND
        then = instants.show(before)
        console.print(f"\n[bold]{name}, one second before its last change and at the end[/bold]")
        for at in (before, moment.at):
            there = rewind.as_of(key, at, moment.known_at)
            since = "did not exist" if there is None else f"as it was since {instants.show(there.vf)}"
            console.print(f"{instants.show(at)}: {since}", highlight=False)
        console.print("\n[bold]The difference[/bold]")
        told_apart = questions.difference(rewind, moment, before, key=key)
        text.print_difference(console, told_apart.items)
    console.print("\n[bold]Ask on[/bold]")
    place = shlex.quote(str(settings.home))
    for line in (
        f"changes --since {then}",
        f"show {name} --at {then}",
        f"history {name}",
        f"diff {then} --object {name}",
        "serve",
    ):
        console.print(f"hindgraph --home {place} {line}", markup=False, highlight=False, soft_wrap=True)


def _kind(item: dict[str, Json]) -> Json:
    told = item["object"]
    return told["kind"] if isinstance(told, dict) else None
