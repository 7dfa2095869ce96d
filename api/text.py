"""Answers for people: a block of lines a thing, so that a narrow terminal reads like a wide one.

Colours come only where rich finds a terminal. Which field comes first is decided here: what was asked for, what a
variable is shadowed by, what the object is meant to be; labels and status after that. Nothing is asked here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import orjson
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from api.answer import Answer
from api.evaluating import Marked
from api.retaining import Retained
from schema import instants
from schema.canonical import Json
from schema.instants import MAX
from schema.paths import matches, shorten
from store.derive.facts import maps

_SHORT = 60
_FIELDS = 3


def print_changes(console: Console, answer: Answer, expand: bool = False, path: str | None = None) -> None:
    """A block a change; its consequences are counted by kind, or `expand`ed. What meets `path` is shown first."""
    for item in answer.items:
        for line in change_lines(item, path):
            _say(console, line)
        if expand:
            for member in members(item):
                for line in change_lines(member, path):
                    _say(console, line, 4)
    if not answer.items:
        console.print("no changes")


def change_lines(item: dict[str, Json], path: str | None = None) -> list[str]:
    """What happened, then a line a field, then its consequences; of these the one that meets `path`, if it does not."""
    lines = [f"{_when(item)}  [bold]{_plain(_name(item['object']))}[/bold]  {_short(item['op'])} by {_actor(item)}"]
    lines += [f"  {line}" for line in field_lines(item["fields"], path)]
    followed = members(item)
    if path is not None and not _meets(item, path):
        met = next((one for one in followed if _meets(one, path)), None)
        if met is not None:
            lines.append(f"  so {_plain(_name(met['object']))}  {_short(met['op'])}")
            lines += [f"    {line}" for line in field_lines(met["fields"], path)]
    return [*lines, f"  [dim]{_consequences(followed)}[/dim]"] if followed else lines


def members(item: dict[str, Json]) -> list[dict[str, Json]]:
    """The changes that are folded under one."""
    told = item["members"]
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def field_lines(fields: Json, path: str | None = None) -> list[str]:
    """A line a field, what matters most first: path, before and after."""
    rows = [_map(one) for one in fields] if isinstance(fields, list) else []
    ranked = sorted(rows, key=lambda row: _rank(row, path))
    shown: list[dict[str, Json]] = []
    for row in ranked:
        # A whole that came or went says what its parts say.
        if not any(
            row["effect"] == whole["effect"] and matches(str(row["path"]), str(whole["path"])) for whole in shown
        ):
            shown.append(row)
    lines = [
        f"{_plain(shorten(str(row['path'])))}: {_value(row['before'])} → {_value(row['after'])}"
        + (f" ({row['effect']})" if row["effect"] in ("shadowed", "unshadowed", "reordered") else "")
        for row in shown[:_FIELDS]
    ]
    return [*lines, f"and {len(shown) - _FIELDS} more"] if len(shown) > _FIELDS else lines


def print_history(console: Console, answer: Answer) -> None:
    for item in answer.items:
        valid, change = _map(item["valid"]), _map(item["change"])
        op = _short(change.get("op") or "state")
        by = f" by {_actor(change)}" if op not in ("observe", "state") else ""
        _say(console, f"{_short(valid['not_after'])} to {_short(valid['to'] or 'now')}  {op}{by}")
        for line in field_lines(change.get("fields")):
            _say(console, line, 2)
    if not answer.items:
        console.print("no versions")


def print_fields(console: Console, answer: Answer) -> None:
    for item in answer.items:
        _say(console, f"{_when(item)}  {_short(item['effect'])} by {_actor(item)}")
        path = _plain(shorten(str(item["path"])))
        _say(console, f"{path}: {_value(item['before'])} → {_value(item['after'])}", 2)
    if not answer.items:
        console.print("no such field changed")


def print_object(console: Console, answer: Answer) -> None:
    for item in answer.items:
        valid, unsure = _map(item["valid"]), _map(item["uncertain"])
        console.print(f"[bold]{_plain(_name(item['object']))}[/bold]  since {_short(valid['not_after'])}")
        if item["existed"] is None:
            _say(console, f"it came into being between {unsure['not_before']} and {unsure['not_after']}", 2)
            continue
        if item["state"] is None:
            _say(console, f"it existed then, but was first seen at {valid['not_after']}: its state is not recorded", 2)
            continue
        if unsure:
            _say(
                console,
                f"[yellow]uncertain[/yellow]: its next change lies between {unsure['not_before']} and "
                f"{unsure['not_after']}",
                2,
            )
        console.print_json(orjson.dumps(item["state"]).decode())
        table = _table("predicate", "source", "target", "rule")
        edges = item["edges"]
        for edge in edges if isinstance(edges, list) else []:
            told = _map(edge)
            rule = _map(told["provenance"])["rule"]
            table.add_row(_short(told["predicate"]), _plain(told["src"]), _plain(told["dst"]), _short(rule))
        if table.row_count:
            console.print(table)
    if not answer.items:
        watched = any(_map(row)["state"] != "unwatched" for row in answer.unknown) or not answer.unknown
        console.print("it did not exist then" if watched else "nothing was recorded then: nobody watched yet")


def print_difference(console: Console, answer: Answer) -> None:
    for item in answer.items:
        _say(console, f"[bold]{_plain(_name(item['object']))}[/bold]  {_short(item['effect'])}")
        for line in field_lines(item["fields"]):
            _say(console, line, 2)
    if not answer.items:
        console.print("no difference")


def print_findings(console: Console, answer: Answer) -> None:
    """What is wrong and since when, what it rests on, what made it so; where nothing is, what to ask next."""
    for item in answer.items:
        before = "since before the recording" if answer.horizon == -MAX else "since before the horizon"
        since = before if item["since"] is None else f"since {_short(item['since'])}"
        _say(console, f"[bold]{_plain(_name(item['object']))}[/bold]  {_short(item['check'])}, {since}")
        _say(console, _plain(item["sentence"]), 2)
        for row in maps(item, "fields"):
            if str(row["value"]) not in str(item["sentence"]):
                whose = "" if row["object"] == _name(item["object"]) else f"{row['object']} "
                path = _plain(whose + shorten(str(row["path"])))
                _say(console, f"[dim]{path}: {_value(row['value'], 200)}[/dim]", 2)
        for one in maps(item, "evidence"):
            if str(one["message"]) not in str(item["sentence"]):
                _say(
                    console,
                    f"[dim]heard {_short(one['at'])}: {_short(one['reason'])}: {_short(one['message'], 200)}[/dim]",
                    2,
                )
        if item["says"] == "mechanism":
            for change in maps(item, "changes"):
                what = f"{_plain(_name(change['object']))} {_short(change['op'])} by {_actor(change)}"
                _say(console, f"made so by {what} at {_short(_map(change['valid'])['not_after'])}", 2)
                for line in field_lines(change["fields"]):
                    _say(console, line, 4)
    if not answer.items and not answer.coverage:
        console.print("unknown: nothing was watched then")
    elif not answer.items:
        console.print("nothing is wrong as far as is known; `hindgraph changes` tells what changed, `--actor` by whom")


def print_marked(console: Console, marked: Sequence[Marked]) -> None:
    """A row a recording, and the shares of all."""
    table = _table("recording", "right", "first", "in 3", "causes", "rank", "beside", "noisy", "s", "found")
    for one in marked:
        told = one.score
        named = [""] * 4
        if not told.healthy:
            named = [_yes(told.at_1), _yes(told.at_3), f"{told.causes}/{told.of}", str(told.rank or "-")]
        table.add_row(
            _plain(one.file), _yes(told.right), *named, str(told.beside), f"{told.noisy}/{told.instants}",
            f"{one.seconds:.1f}", _plain(" ".join(one.checks)),
        )  # fmt: skip
    console.print(table)
    faults = [one.score for one in marked if not one.score.healthy]
    right = sum(one.score.right for one in marked)
    console.print(
        f"right: {right} of {len(marked)}; of {len(faults)} faults the component first in "
        f"{sum(f.at_1 for f in faults)}, among three in {sum(f.at_3 for f in faults)}; "
        f"causes with their field: {sum(f.causes for f in faults)} of "
        f"{sum(f.of for f in faults)}; noisy: {sum(one.score.noisy for one in marked)} of "
        f"{sum(one.score.instants for one in marked)} healthy instants",
        soft_wrap=True,
    )


def _yes(told: bool) -> str:
    return "yes" if told else "[red]no[/red]"


def print_coverage(console: Console, answer: Answer) -> None:
    """What was watched alike stands together."""
    alike: dict[tuple[Json, ...], list[str]] = defaultdict(list)
    for item in answer.items:
        if item["state"] != "ended":
            alike[item["state"], item["from"], item["to"], item["reason"]].append(str(item["group_resource"]))
    for (state, start, end, reason), names in sorted(alike.items(), key=lambda row: (str(row[0][1]), row[1])):
        why = f" ({_short(reason)})" if reason else ""
        _say(console, f"{_short(state)} from {start} to {end or 'now'}{why}")
        _say(console, _plain(", ".join(names)), 2)
    if not answer.items:
        console.print("nothing was watched")


def print_evidence(console: Console, answer: Answer) -> None:
    for item in answer.items:
        times = f" ×{item['count']}" if item["count"] != 1 else ""
        about = f"[bold]{_plain(_name(item['object']))}[/bold]"
        _say(console, f"{item['at']}  {about}  {_short(item['severity'] or '')} {_short(item['reason'] or '')}{times}")
        _say(console, _plain(item["message"] or ""), 2)
    if not answer.items:
        console.print("no evidence")


def print_dead_letters(console: Console, answer: Answer) -> None:
    for item in answer.items:
        _say(console, f"log position {item['position']}  {_short(item['reason'])}")
        _say(console, _plain(item["detail"]), 2)
    if not answer.items:
        console.print("no dead letters")


def print_retained(console: Console, told: Retained) -> None:
    made = told.plan
    if not made.horizons:
        console.print("nothing lies below")
        return
    for scope, at in made.horizons.items():
        _say(console, f"horizon of {_plain(scope)}: {instants.show(at)}")
    verb = "would go" if told.after is None else "dropped"
    kinds = ", ".join(f"{count} {kind}" for kind, count in made.dropped.most_common())
    console.print(f"{verb}: {made.dropped.total()} of {made.records} records" + (f" ({kinds})" if kinds else ""))
    console.print(f"kept as a state at the horizon: {made.states}; objects kept from before it: {made.held}")
    if told.after is not None:
        console.print(f"log and ledger: {told.before:,} bytes before, {told.after:,} after")


def print_footer(console: Console, answer: Answer) -> None:
    """What the answer was asked at, and what it cannot know."""
    told = answer.as_json()
    _say(console, f"[dim]at {told['at']}, known at {told['known_at']}, scope {_plain(answer.scope)}[/dim]")
    if told["horizon"]:
        _say(console, f"[dim]what lay before {told['horizon']} was dropped[/dim]")
    alike: dict[tuple[Json, ...], list[str]] = defaultdict(list)
    for row in answer.unknown:
        if row["state"] == "broken":
            _say(
                console, f"[yellow]unknown[/yellow] from {row['from']} to {row['to'] or 'now'}: {_plain(row['reason'])}"
            )
            continue
        alike[row["state"], row["from"], row["to"]].append(str(row["group_resource"]))
    unwatched = {str(end): names for (state, _, end), names in alike.items() if state == "unwatched"}
    if unwatched:
        count = sum(map(len, unwatched.values()))
        _say(console, f"[yellow]unknown[/yellow] before {max(unwatched)}: {count} group-resources, not watched yet")
    for (state, start, end), names in alike.items():
        if state not in ("unwatched", "ended"):
            what = names[0] if len(names) == 1 else f"{len(names)} group-resources"
            _say(console, f"[yellow]unknown[/yellow] from {start} to {end or 'now'}: {what}, {_short(state)}")
    if answer.next:
        console.print(f"more: --cursor {answer.next}", soft_wrap=True)


def _say(console: Console, words: str, indent: int = 0) -> None:
    """A line, and where the terminal is narrow its continuation at the same indent."""
    console.print(Padding(words, (0, 0, 0, indent), expand=False), highlight=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _rank(row: dict[str, Json], path: str | None) -> tuple[int, int]:
    name = str(row["path"])
    if path is not None and matches(name, path):
        return 0, 0
    if row["effect"] in ("shadowed", "unshadowed"):
        return 1, 0
    part = name.partition(".")[0].partition("[")[0]
    return {"metadata": 3, "status": 4}.get(part, 2), "annotations" in name


def _meets(item: dict[str, Json], path: str) -> bool:
    fields = item["fields"]
    return any(matches(str(_map(row)["path"]), path) for row in fields) if isinstance(fields, list) else False


def _when(item: dict[str, Json]) -> str:
    valid = _map(item["valid"])
    flags = item.get("flags")
    if isinstance(flags, list) and "from_relist" in flags:
        # Nobody watched: all that is known is an interval.
        return f"{valid['not_before']} – {valid['not_after']}"
    return str(valid["not_after"])


def _consequences(followed: list[dict[str, Json]]) -> str:
    kinds: dict[str, list[str]] = defaultdict(list)
    for one in followed:
        kinds[str(_map(one["object"])["kind"])].append(_name(one["object"]))
    parts = [f"{len(names)} of {len(set(names))} {kind}" for kind, names in kinds.items()]
    return escape(
        f"then {len(followed)} changes: {', '.join(parts)}" if len(followed) > 1 else f"then 1 of {parts[0][5:]}"
    )


def _actor(item: dict[str, Json]) -> str:
    actor = _map(item.get("actor"))
    user, manager = actor.get("user"), actor.get("manager")
    return f"{_short(user)} with {_short(manager)}" if user and manager else _short(user or manager or "unknown")


def _value(value: Json, limit: int = _SHORT) -> str:
    return "∅" if value is None else _short(value if isinstance(value, str) else orjson.dumps(value).decode(), limit)


def _name(item: Json) -> str:
    told = _map(item)
    return "/".join(str(part) for part in (told["kind"], told["namespace"], told["name"]) if part)


def _map(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _plain(value: Json) -> str:
    return escape(_tame(str(value)))


def _tame(text: str) -> str:
    """A recorded value must not steer the terminal."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _short(value: Json, limit: int = _SHORT) -> str:
    text = _tame(str(value).replace("\n", "⏎"))
    return escape(text if len(text) <= limit else text[: limit - 1] + "…")
