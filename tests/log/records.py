"""Small records for the log's tests."""

from __future__ import annotations

from schema.canonical import digest
from schema.records import Change, Coverage, ObjectRef, Record, Span, Valid

SCOPE = "kubernetes/lab"


def change(number: int, at: int, *, scope: str = "lab", not_after: int | None = None, text: str = "") -> Record:
    state = {"metadata": {"name": f"cart-{number}", "namespace": "shop"}, "data": {"text": text}}
    ref = ObjectRef(
        source="kubernetes", scope=scope, type="core/ConfigMap", kind="ConfigMap", namespace="shop",
        name=f"cart-{number}", **{"class": "Config"},
    )  # fmt: skip
    return Change(
        id=f"{number:032x}",
        op="create",
        object=ref,
        valid=Valid(not_before=at - 5, not_after=at if not_after is None else not_after),
        observed_at=at,
        digest=digest(state),
        patch=[{"op": "add", "path": "", "value": state}],
    )


def coverage(at: int) -> Record:
    return Coverage(
        id=f"{at:032x}", source="kubernetes", scope="lab", group_resource="pods", state="watching",
        valid=Span(**{"from": at, "to": 2**63 - 1}), epoch="e", observed_at=at,
    )  # fmt: skip
