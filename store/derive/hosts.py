"""Names of Services in text: which hosts and ports a value, an argument or a file names, and what these can be.

The grammar alone, pure: what a text says, never whether such a Service is there. Which texts of an object are read is
`store.derive.addresses`. A bare word counts only where the field asks for a host (`PAYMENT_HOST`, `--db-host`); names
of listeners, of hosts that are let in and of the object itself are no calls. Words that decide are the table
`addresses.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

LONGEST_LINE = 4096
"""Characters of a line of text that are searched; what lies beyond is no place for an address."""

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = rf"(?:_[a-z0-9-]{{1,62}}\.){{0,2}}{_LABEL}(?:\.{_LABEL}){{0,9}}\.?"
_BEFORE, _AFTER = r"(?<![^\s,;=(\[{\"'`@|<])", r"(?=[\s,;)\]}\"'`/?&|>]|$)"

_ONE = re.compile(_HOST)
_URL = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,30}):///?([^\s\"'`<>/?#]{1,1024})")
_NEXT_URL = re.compile(r",(?=[A-Za-z][A-Za-z0-9+.-]{0,30}://)")
_PART = re.compile(rf"(?:tcp:)?({_HOST})(?::(\d{{1,5}}))?")
_PORTED = re.compile(rf"{_BEFORE}(?:tcp:|\d{{1,6}}@)?({_HOST}):(\d{{1,5}}){_AFTER}")
_EXPLICIT = re.compile(
    rf"(?<![A-Za-z0-9_.-])((?:_[a-z0-9-]{{1,62}}\.){{0,2}}(?:{_LABEL}\.){{2,3}}svc(?:\.{_LABEL}){{0,4}}\.?)"
    r"(?![A-Za-z0-9_-])(?::(\d{1,5}))?"
)
_PAIR = re.compile(
    rf"([A-Za-z][\w.-]{{0,63}}|[Dd]ata [Ss]ource)[\"']?\s{{0,8}}(?:[=:]\s{{0,8}}|(?<=ost)\s{{1,8}})[\"'\[]{{0,2}}"
    rf"(?:tcp:)?({_HOST})(?:[,:](\d{{1,5}}))?(?=[\s,;&\"'\]}}]|$)"
)
_PORT_PAIR = re.compile(r"\bport\s{0,8}=\s{0,8}(\d{1,5})\b", re.IGNORECASE)
_CLIENT = re.compile(
    rf"\b(?:nc|ncat|telnet)(?:\s+-\S+(?:\s+\d+)?)*\s+({_HOST})\s+(\d{{1,5}})\b"
    rf"|(?:^|\s)(?:-h|--host)[ =]({_HOST})(?=\s|$)"
)
_COMMENT = ("#", "//", ";", "--", "<!--")

_TABLE = tomllib.loads(files("schema").joinpath("tables/addresses.toml").read_text(encoding="utf-8"))
_ASKS = frozenset(word for entry in _TABLE["asks"] for word in entry["words"])
_ASKS_IN_FILES = frozenset(word for entry in _TABLE["asks"] if entry.get("in_files", True) for word in entry["words"])
_OWN = frozenset(name for entry in _TABLE["own"] for name in entry["names"])
_NEVER = frozenset(word for entry in _TABLE["never"] for word in entry["words"])
_NO_HOST = frozenset(word for entry in _TABLE["scheme"] for word in entry["words"])
_NAMES_ONLY = re.compile("|".join(entry["pattern"] for entry in _TABLE["names_only"]))
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Spot(NamedTuple):
    """A host that a text names; `port` None: the text says none. `form` is one of `FORMS`."""

    host: str
    port: int | None
    form: str


FORMS: Mapping[str, float] = {"service name": 1.0, "url": 0.95, "host and port": 0.9, "host": 0.8}
"""How a text can name a host, with the confidence that a call is meant: `x.y.svc` says so itself, a URL and
`host:port` by their form, a bare host by its field."""


class Target(NamedTuple):
    """A Service that a host can be. `pod`: the host is one of its pods, which only a headless Service names.
    `explicit`: the host says by itself that it is a Service of this cluster."""

    namespace: str
    name: str
    pod: bool = False
    explicit: bool = False


@lru_cache(maxsize=4096)
def wants_host(field: str, *, in_file: bool = False) -> bool:
    """Whether a variable, flag or key of this name holds a host: `PAYMENT_ADDR`, `redis.host`, `--db-url`."""
    words = [word.lower() for word in _WORDS.findall(field) if not word.isdigit()]
    if not words or field in _OWN or _NEVER & set(words):
        return False
    return words[-1] in (_ASKS_IN_FILES if in_file else _ASKS)


@lru_cache(maxsize=4096)
def listens(field: str) -> bool:
    """Whether a field of this name says where something listens or who is let in: nothing in it is called."""
    return any(word.lower() in _NEVER for word in _WORDS.findall(field))


def is_of_names_only(key: str) -> bool:
    """Whether a ConfigMap's key of this name holds names that its reader does not call."""
    return _NAMES_ONLY.search(key) is not None


def in_value(text: str, field: str) -> tuple[Spot, ...]:
    """What the value of one field names, each host once for each port: a URL, a list, a DSN, a bare host. A value of
    several lines is read as a file."""
    text = text.strip()
    if listens(field) or (len(text) > LONGEST_LINE and "\n" not in text):
        return ()
    return in_file(text) if "\n" in text else _in_value(text, field)


@lru_cache(maxsize=4096)  # Every rollout and every replica of a setting says the same again.
def _in_value(text: str, field: str) -> tuple[Spot, ...]:
    if wants_host(field) and _ONE.fullmatch(text):
        found = [_spot(text, None, "host")]
    else:
        found = list(_in_line(text, in_file=False))
        if not found and wants_host(field):
            parts = [part for part in re.split(r"[,;\s]+", text) if part]
            found = [_spot(part, None, "host") for part in parts] if all(map(_ONE.fullmatch, parts)) else []
    return tuple(_usable(found))


@lru_cache(maxsize=256)
def in_file(text: str) -> tuple[Spot, ...]:
    """What a file names, line by line; comments do not count."""
    found: list[Spot] = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith(_COMMENT) or len(bare) > LONGEST_LINE:
            continue
        if ":" in bare or "." in bare or "=" in bare or "ost" in bare:
            key = re.match(r"[-\s\"']*([\w.-]+)", bare)
            if key is None or not listens(key[1]):
                found.extend(_in_line(bare, in_file=True))
    return tuple(_usable(found))


def candidates(host: str, namespace: str) -> tuple[Target, ...]:
    """The Services that a host can be for a pod of `namespace`, in the order in which DNS tries them."""
    labels = host.rstrip(".").split(".")
    while len(labels) > 1 and labels[0].startswith("_"):
        labels = labels[1:]
    if "svc" in labels[2:4]:
        at = 2 if labels[2] == "svc" else 3
        ours = labels[at + 1 :] in ([], ["cluster", "local"])
        return (Target(labels[at - 1], labels[at - 2], pod=at == 3, explicit=ours),)
    if host.endswith("."):
        return ()
    if len(labels) == 1:
        return (Target(namespace, labels[0]),)
    if len(labels) == 2:
        return (Target(namespace, labels[1], pod=True), Target(labels[1], labels[0]))
    return (Target(labels[2], labels[1], pod=True),) if len(labels) == 3 else ()


def _in_line(text: str, *, in_file: bool) -> Iterator[Spot]:
    rest = text
    if "://" in text:
        for match in _URL.finditer(_NEXT_URL.sub(" ", text)):
            rest = rest.replace(match[0], " ", 1)
            yield from _of_url(match[1].lower(), match[2])
    for match in _PORTED.finditer(rest):
        yield _spot(match[1], match[2], "host and port")
    if ".svc" in rest:
        for match in _EXPLICIT.finditer(rest):
            yield _spot(match[1], match[2], "host")
    if "=" in rest or ":" in rest or "ost" in rest:
        port = _PORT_PAIR.search(rest)
        for match in _PAIR.finditer(rest):
            if wants_host(match[1], in_file=in_file) or match[1].lower() in ("host", "server", "data source"):
                yield _spot(match[2], match[3] or (port[1] if port else None), "host")
    if " " in rest:
        for match in _CLIENT.finditer(rest):
            yield _spot(match[1] or match[3], match[2], "host and port" if match[2] else "host")


def _of_url(scheme: str, authority: str) -> Iterator[Spot]:
    if scheme not in _NO_HOST:
        authority = authority.rpartition("@")[2]
        dsn = re.fullmatch(r"(?:tcp|udp)\((.+)\)", authority)
        for part in (dsn[1] if dsn else authority).split(";")[0].split(","):
            match = _PART.fullmatch(part)
            if match is not None:
                yield _spot(match[1], match[2], "url")


def _spot(host: str, port: str | None, form: str) -> Spot:
    if ".svc" in host and any(target.explicit for target in candidates(host, "")):
        form = "service name"
    return Spot(host, int(port) if port else None, form)


def _usable(found: list[Spot]) -> list[Spot]:
    """Each once; the same host without a port adds nothing, and numbers, this machine and no port at all are none."""
    ported = {spot.host for spot in found if spot.port is not None}
    kept: dict[tuple[str, int | None], Spot] = {}
    for spot in found:
        last = spot.host.rstrip(".").rpartition(".")[2]
        if spot.port is None and spot.host in ported:
            continue
        if spot.host != "localhost" and not last.isdigit() and (spot.port is None or 0 < spot.port < 65536):
            kept.setdefault((spot.host, spot.port), spot)
    return list(kept.values())
