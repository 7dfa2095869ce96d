"""Readings of what an API server answers: bodies, and what a Status says of an error. Pure."""

from __future__ import annotations

import orjson

from schema.canonical import Json

_EXPIRED = frozenset({"Expired", "Gone"})


def parsed(raw: bytes) -> dict[str, Json] | None:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def message_of(body: dict[str, Json]) -> str:
    said = body.get("message")
    return said if isinstance(said, str) else "forbidden"


def is_too_large(body: dict[str, Json]) -> bool:
    """Whether the server has not come to the version yet, or never will (it was restored from a backup)."""
    details = body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if isinstance(causes, list) and any(
        isinstance(one, dict) and one.get("reason") == "ResourceVersionTooLarge" for one in causes
    ):
        return True
    return "Too large resource version" in message_of(body)


def asked_to_wait(body: dict[str, Json]) -> float:
    details = body.get("details")
    asked = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return float(asked) if isinstance(asked, int) and 0 < asked < 3600 else 0.0


def is_expired(body: dict[str, Json]) -> bool:
    """Whether the version, or the token of a list, is too old for the server (as HTTP status or within a watch)."""
    return body.get("code") == 410 or body.get("reason") in _EXPIRED
