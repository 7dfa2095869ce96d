"""The demo: recorded streams replayed into homes of their own, and the story that the answers tell of them.

It needs no cluster and no network, and knows nothing of what was recorded: what is wrong comes from the symptoms, what
led to it from the changes near it. The questions are the ordinary ones; only what to ask next is decided here. What the
first recording has no example of is shown in the next.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from api import changes as changed
from api import home, questions, replaying, text
from api.answer import change_item
from api.cascade import leads
from api.findings import findings
from api.questions import Moment
from api.settings import Settings
from schema import instants
from schema.canonical import Json
from schema.identity import Key, parse_key
from store.past import Recorded
from store.rewind import Rewind

_FOLDER = Path(__file__).parent.parent / "demo"
STORIES = (_FOLDER / "long_story.jsonl.gz", _FOLDER / "watch_gap.jsonl.gz")

_HOPS = 2
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Teller:
    """One recording being told: where it was replayed to, and the end of it, at which it is asked."""

    console: Console
    settings: Settings
    rewind: Rewind
    moment: Moment

    def say(self, words: str, indent: int = 2) -> None:
        self.console.print(Padding(words, (0, 0, 0, indent), expand=False), highlight=False)

    def head(self, words: str) -> None:
        self.console.print(f"\n[bold cyan]{words}[/bold cyan]", highlight=False)

    def changes(self, op: str) -> list[Recorded]:
        """Every change of one kind, newest first."""
        found = self.rewind.changes(self.moment.scope, until=self.moment.at, known_at=self.moment.known_at, limit=-1)
        return [one for one in found if one.change.op == op]


_Part = Callable[[_Teller], str | None]
"""Something to tell, where the recording has an example: gives what to ask about it."""


def tell(console: Console, place: Path, stories: tuple[Path, ...] = STORIES) -> None:
    """Replay the recordings into homes below `place`, tell the first, and from the others what it does not show."""
    with ExitStack() as stack:
        first = _open(stack, console, place, stories[0])
        asks = _story(first)
        left = _also(first, [_replaced, _between], asks)
        for file in stories[1:] if left else ():
            console.print(f"\nThat is all {stories[0].name} can show. A second recording has what follows.")
            other = _open(stack, console, place, file)
            asked: list[str] = []
            left = _also(other, left, asked)
            asks += [f"--home {shlex.quote(str(other.settings.home))} {ask}" for ask in asked]
    console.print("\n[bold cyan]Ask on[/bold cyan]")
    program = sys.argv[0] if Path(sys.argv[0]).name == "hindgraph" else "hindgraph"
    lines = [f"export HINDGRAPH_HOME={shlex.quote(str(first.settings.home))}"]
    lines += [f"{shlex.quote(program)} {ask}" for ask in [*asks, "serve"]]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _also(teller: _Teller, parts: list[_Part], asks: list[str]) -> list[_Part]:
    """Tell the parts that the recording has an example of, add what to ask about it, and give the others."""
    left = []
    for part in parts:
        ask = part(teller)
        if ask is None:
            left.append(part)
        else:
            asks.append(ask)
    return left


def _open(stack: ExitStack, console: Console, place: Path, file: Path) -> _Teller:
    settings = Settings(home=place / file.name.partition(".")[0])
    begun = time.monotonic()
    (told,), stats = replaying.replay(settings, [file])
    rewind = stack.enter_context(home.past(settings))
    moment = questions.settle(rewind)
    teller = _Teller(console, settings, rewind, moment)
    watched = min(row.vf for row in rewind.coverage(moment.scope, moment.known_at))
    teller.say(
        f"{file.name}: {told.added} records of a cluster replayed in {time.monotonic() - begun:.1f} s, {stats.dead} "
        f"unreadable; watched from {instants.show(watched)} to {instants.show(moment.at)}.",
        indent=0,
    )
    return teller


# -- what happened


def _story(teller: _Teller) -> list[str]:
    """What is wrong, what changed before, then and now; the commands to go on with."""
    moment = teller.moment
    teller.head(f"What is wrong at {instants.show(moment.at)}?")
    answer = findings(teller.rewind, moment)
    text.print_findings(teller.console, answer)
    wrong = answer.items
    near, onset = _first(wrong)
    suspect = _suspect(teller, near, onset or moment.at)
    if suspect is None:
        return ["check", "changes", "coverage"]
    key = suspect.change.object.key
    then = suspect.vf - 1
    _then_and_now(teller, key, then)
    name, before = shlex.quote(_name(key)), instants.show(then)
    where = f" --near {shlex.quote(_name(near))}" if near else ""
    return [
        "check",
        f"changes{where} --at {instants.show(onset or moment.at)}",
        f"history {name}",
        f"show {name} --at {before}",
        f"diff {before} --object {name}",
    ]


def _first(wrong: list[dict[str, Json]]) -> tuple[Key | None, int | None]:
    """The object that went wrong first, as far as that was recorded, and when."""
    known = [(str(item["since"]), _key(item)) for item in wrong if item["since"] is not None]
    if known:
        since, key = min(known, key=lambda one: instants.parse(one[0]))
        return key, instants.parse(since)
    return (_key(wrong[0]), None) if wrong else (None, None)


def _suspect(teller: _Teller, near: Key | None, until: int) -> Recorded | None:
    """Tell the changes before it, people's and their tools' first, then the nearest; give the first if it is theirs."""
    teller.head(f"What changed {'' if near is None else f'near {_told(near)} '}before that?")
    before = Moment(teller.moment.scope, until, teller.moment.known_at)
    where = changed.Filter(near=near, hops=_HOPS)
    items = changed.changes(teller.rewind, before, where=where, limit=1000).items
    rings = [] if near is None else [
        changed.neighbourhood(teller.rewind, before, near, hops) for hops in range(_HOPS)
    ]  # fmt: skip
    order: list[tuple[bool, int, int, Recorded]] = []
    for place, item in enumerate(items):
        one = teller.rewind.change(str(item["id"]), before.known_at)
        if one is not None:
            keys = {_key(told) for told in (item, *text.members(item))}
            far = next((hops for hops, ring in enumerate(rings) if keys & ring), _HOPS)
            order.append((not _somebodys(teller, one), far, place, one))
    order.sort(key=lambda entry: entry[:3])
    for _, _, place, _ in order[:_SHOWN]:
        for line in text.change_lines(items[place]):
            teller.say(line)
    everything = teller.rewind.changes(before.scope, until=until, known_at=before.known_at, limit=-1)
    teller.say(
        f"[dim]the nearest {len(order[:_SHOWN])} of {len(order)} near it, of {len(everything)} changes until then[/dim]"
    )
    if not order or order[0][0]:
        teller.say("None of them is anybody's doing: the cause is not in sight here.")
        return None
    suspect = order[0][3]
    if near is not None:
        teller.say(
            f"The suspect is the first, the nearest that was somebody's doing: {_told(suspect.change.object.key)}."
        )
    return suspect


def _somebodys(teller: _Teller, one: Recorded) -> bool:
    """Whether a change is the doing of a person or a tool of theirs, as far as that is known."""
    key = one.change.object.key
    # A delete ends the version that names the controller.
    at = one.vf - 1 if one.change.op == "delete" else one.vf
    return leads(one, teller.rewind.controller(key, at, teller.moment.known_at) or key)


def _then_and_now(teller: _Teller, key: Key, then: int) -> None:
    moment = teller.moment
    teller.head(f"{_told(key)}, just before and now")
    for at in (then, moment.at):
        there = teller.rewind.as_of(key, at, moment.known_at)
        if there is None:
            teller.say(f"{instants.show(at)}  it did not exist")
        else:
            teller.say(f"{instants.show(at)}  as it was since {instants.show(there.vf)}, uid {there.uid}")
    teller.head("The difference")
    for item in questions.difference(teller.rewind, moment, then, key=key).items:
        for line in text.field_lines(item["fields"]) or [str(item["effect"])]:
            teller.say(line)
    around = questions.difference(teller.rewind, moment, then, namespace=key.namespace).items
    counts = Counter(str(item["effect"]) for item in around)
    teller.say(f"[dim]around it: {', '.join(f'{n} objects {effect}' for effect, n in counts.items())}[/dim]")


# -- what else an answer can say


def _replaced(teller: _Teller) -> str | None:
    """Tell of a key whose object was deleted and made anew, if there is one."""
    for one in teller.changes("create"):
        key = one.change.object.key
        lives = teller.rewind.versions(key, teller.moment.known_at)
        old = next((life for life in reversed(lives) if life.vf < one.vf and life.uid != one.change.object.uid), None)
        if old is not None:
            teller.head("An object that was replaced: one name, two lives")
            teller.say(f"[bold]{_told(key)}[/bold] is not the object it was.")
            teller.say(f"uid {old.uid} until {_interval(old.ends_not_before, old.vt)}")
            teller.say(f"uid {one.change.object.uid} since {_interval(one.change.valid.not_before, one.vf)}")
            for line in text.field_lines(change_item(one.change)["fields"]):
                teller.say(line, indent=4)
            return f"history {shlex.quote(_name(key))}"
    return None


def _between(teller: _Teller) -> str | None:
    """Tell of a change that nobody watched, so that only an interval is known, if there is one."""
    for one in teller.changes("update"):
        if "from_relist" in one.change.flags and any(field.path.startswith("spec") for field in one.change.fields):
            key, valid = one.change.object.key, one.change.valid
            teller.head("A change that nobody saw: an interval, not an instant")
            for line in text.change_lines(change_item(one.change)):
                teller.say(line)
            middle = (valid.not_before + valid.not_after) // 2
            asked = Moment(teller.moment.scope, middle, teller.moment.known_at)
            (shown,) = questions.show(teller.rewind, asked, key).items
            ended = "it may have changed by then" if shown["uncertain"] else "it was so for certain"
            teller.say(f"Asked for {instants.show(middle)}, `show` gives the state before it and says: {ended}.")
            return f"show {shlex.quote(_name(key))} --at {instants.show(middle)}"
    return None


def _interval(not_before: int, not_after: int) -> str:
    return f"somewhere from {instants.show(not_before)} to {instants.show(not_after)}"


def _told(key: Key) -> str:
    return escape(_name(key))


def _name(key: Key) -> str:
    return "/".join(part for part in (key.kind, key.namespace, key.name) if part)


def _key(item: dict[str, Json]) -> Key:
    told = item["object"]
    assert isinstance(told, dict)
    return parse_key("/".join(str(told[part] or "-") for part in ("source", "scope", "type", "namespace", "name")))
