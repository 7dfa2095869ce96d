"""Answers for people: tables and short values. Colours come only where rich finds a terminal."""

from __future__ import annotations

from collections import Counter

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from schema.canonical import Json
from schema.paths import shorten

_SHORT = 60


def print_changes(console: Console, items: list[dict[str, Json]], expand: bool = False) -> None:
    """One row a change; its consequences are counted by kind, or `expand`ed to a row each."""
    table = _table("when", "op", "object", "by", "what")
    for item in items:
        _change_row(table, item, "")
        followed = members(item)
        if expand:
            for member in followed:
                _change_row(table, member, "  └ ")
        elif followed:
            table.add_row("  └", "", _consequences(followed))
    console.print(table if items else "no changes")


def change_lines(item: dict[str, Json]) -> list[str]:
    """A change where there is no room for a table: what happened, then a line a field, then its consequences."""
    by = _actor(item)
    lines = [f"{_when(item)}  [bold]{escape(_name(item['object']))}[/bold]  {_short(item['op'])}{by and f' by {by}'}"]
    lines += [f"  {line}" for line in _fields(item["fields"]).splitlines()]
    followed = members(item)
    return [*lines, f"  {_consequences(followed)}"] if followed else lines


def members(item: dict[str, Json]) -> list[dict[str, Json]]:
    """The changes that are folded under one."""
    told = item["members"]
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def field_lines(fields: Json) -> list[str]:
    """A line a field: path, before and after."""
    return _fields(fields).splitlines()


def print_history(console: Console, items: list[dict[str, Json]]) -> None:
    table = _table("from", "to", "op", "by", "what")
    for item in items:
        valid, change = _map(item["valid"]), _map(item["change"])
        table.add_row(
            _short(valid["not_after"]), _short(valid["to"] or "open"), _short(change.get("op") or "state"),
            _actor(change), _fields(change.get("fields")),
        )  # fmt: skip
    console.print(table if items else "no versions")


def print_fields(console: Console, items: list[dict[str, Json]]) -> None:
    table = _table("when", "field", "effect", "before", "after", "by")
    for item in items:
        table.add_row(
            _short(_map(item["valid"])["not_after"]), escape(shorten(str(item["path"]))), _short(item["effect"]),
            _value(item["before"]), _value(item["after"]), _actor(item),
        )  # fmt: skip
    console.print(table if items else "no such field changed")


def print_object(console: Console, items: list[dict[str, Json]]) -> None:
    for item in items:
        valid = _map(item["valid"])
        console.print(f"[bold]{escape(_name(item['object']))}[/bold]  since {_short(valid['not_after'])}")
        if item["state"] is None:
            console.print("it existed, but nobody had looked yet: its state was not recorded")
            continue
        if unsure := _map(item["uncertain"]):
            console.print(
                f"[yellow]uncertain[/yellow]: its next change lies between {unsure['not_before']} and "
                f"{unsure['not_after']}"
            )
        console.print_json(orjson.dumps(item["state"]).decode())
        table = _table("predicate", "from", "to", "rule")
        edges = item["edges"]
        for edge in edges if isinstance(edges, list) else []:
            told = _map(edge)
            rule = _map(told["provenance"])["rule"]
            table.add_row(_short(told["predicate"]), _plain(told["src"]), _plain(told["dst"]), _short(rule))
        if table.row_count:
            console.print(table)
    if not items:
        console.print("it did not exist then")


def print_difference(console: Console, items: list[dict[str, Json]]) -> None:
    table = _table("object", "effect", "what")
    for item in items:
        table.add_row(escape(_name(item["object"])), _short(item["effect"]), _fields(item["fields"]))
    console.print(table if items else "no difference")


def print_symptoms(console: Console, items: list[dict[str, Json]]) -> None:
    """Two lines a symptom: on what and since when, then what is wrong."""
    for item in items:
        since = "since before the recording" if item["since"] is None else f"since {_short(item['since'])}"
        console.print(f"[bold]{escape(_name(item['object']))}[/bold]  {_short(item['id'])}, {since}", highlight=False)
        console.print(f"  {escape(str(item['sentence']))}", highlight=False)
    if not items:
        console.print("nothing is visibly wrong")


def print_coverage(console: Console, items: list[dict[str, Json]]) -> None:
    table = _table("group-resource", "state", "from", "to", "reason")
    for item in items:
        table.add_row(
            _short(item["group_resource"]), _short(item["state"]), _short(item["from"]), _short(item["to"] or "open"),
            _short(item["reason"] or ""),
        )  # fmt: skip
    console.print(table if items else "nothing was watched")


def print_footer(console: Console, answer: dict[str, Json]) -> None:
    """What the answer was asked at, and what it cannot know."""
    console.print(f"[dim]at {answer['at']}, known at {answer['known_at']}, scope {escape(str(answer['scope']))}[/dim]")
    unknown = answer["unknown"]
    rows = [_map(row) for row in unknown] if isinstance(unknown, list) else []
    if before := [str(row["to"]) for row in rows if row["state"] == "unwatched"]:
        console.print(f"[yellow]unknown[/yellow] before {max(before)}: {len(before)} group-resources, not watched yet")
    for told in [row for row in rows if row["state"] != "unwatched"][:10]:
        console.print(
            f"[yellow]unknown[/yellow] {_short(told['group_resource'])}: {_short(told['state'])} since {told['from']}"
        )
    if answer["next"]:
        console.print(f"more: --cursor {answer['next']}")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _change_row(table: Table, item: dict[str, Json], indent: str) -> None:
    table.add_row(
        indent + _when(item), _short(item["op"]), escape(_name(item["object"])), _actor(item), _fields(item["fields"])
    )


def _when(item: dict[str, Json]) -> str:
    valid = _map(item["valid"])
    if "from_relist" in (item["flags"] if isinstance(item["flags"], list) else []):
        # Nobody watched: all that is known is an interval.
        return f"{valid['not_before']} – {valid['not_after']}"
    return str(valid["not_after"])


def _consequences(members: list[dict[str, Json]]) -> str:
    kinds = Counter(str(_map(one["object"])["kind"]) for one in members)
    return escape("then " + ", ".join(f"{kind} ×{n}" for kind, n in kinds.items()))


def _actor(item: dict[str, Json]) -> str:
    actor = _map(item.get("actor"))
    return _short(actor.get("user") or actor.get("manager") or "")


def _fields(fields: Json) -> str:
    rows = [_map(one) for one in fields] if isinstance(fields, list) else []
    lines = [
        f"{escape(shorten(str(row['path'])))}: {_value(row['before'])} → {_value(row['after'])}" for row in rows[:3]
    ]
    if len(rows) > 3:
        lines.append(f"and {len(rows) - 3} more")
    return "\n".join(lines)


def _value(value: Json) -> str:
    return "∅" if value is None else _short(value if isinstance(value, str) else orjson.dumps(value).decode())


def _name(item: Json) -> str:
    told = _map(item)
    return "/".join(str(part) for part in (told["kind"], told["namespace"], told["name"]) if part)


def _map(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _plain(value: Json) -> str:
    return escape(str(value))


def _short(value: Json) -> str:
    text = str(value)
    return escape(text if len(text) <= _SHORT else text[: _SHORT - 1] + "…")
