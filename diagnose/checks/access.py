"""Rights that were lost, and objects that cannot go: what an identity may no longer do, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diagnose.check import Cited, Found, check
from diagnose.checks.symptoms import waits
from diagnose.slices import GRACE, Made, Slice, beside
from diagnose.templates import POD, WORKLOADS, pods_of, tops
from schema.errors import BadInstant
from schema.identity import Key
from schema.instants import SECOND, parse
from schema.records import Evidence
from store.derive.facts import State, at, maps, text

_GROUP = "rbac.authorization.k8s.io"
ROLE, CLUSTER_ROLE = f"{_GROUP}/Role", f"{_GROUP}/ClusterRole"
BINDING, CLUSTER_BINDING = f"{_GROUP}/RoleBinding", f"{_GROUP}/ClusterRoleBinding"
_ACCOUNT = "core/ServiceAccount"
_LONG = 600 * SECOND
"""What Kubernetes itself has to finish may take that long: disks, load balancers, whole namespaces."""
_OWN = (
    "kubernetes.io/",
    "foregroundDeletion",
    "orphan",
    "kubernetes",
    "batch.kubernetes.io/",
    "service.kubernetes.io/",
)
_TAKES_AWAY = frozenset({"update", "patch", "*"})


class Right(NamedTuple):
    """A verb on a resource, in one namespace or (None) in all."""

    group: str
    resource: str
    verb: str
    namespace: str | None

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


def rights(role: State | None, namespace: str | None) -> set[Right]:
    """What the rules of a role allow, bound in a namespace."""
    return {
        Right(group, resource, verb, namespace)
        for rule in maps(role, "rules")
        for group in _words(rule, "apiGroups")
        for resource in _words(rule, "resources")
        for verb in _words(rule, "verbs")
    }


def _words(rule: State, name: str) -> list[str]:
    value = rule.get(name)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _covers(have: set[Right], one: Right) -> bool:
    """Whether rights hold another one, their stars included."""
    return any(
        mine.namespace in (None, one.namespace)
        and mine.group in ("*", one.group)
        and mine.resource in ("*", one.resource)
        and mine.verb in ("*", one.verb)
        for mine in have
    )


class _Loss(NamedTuple):
    """A recorded change that took rights from accounts."""

    made: Made
    accounts: frozenset[Key]
    rights: frozenset[Right]


def losses(slice_: Slice) -> Iterator[_Loss]:
    """Every recorded change by which accounts lost rights, the newest of each object."""
    for type_ in (BINDING, CLUSTER_BINDING):
        for key, one in _latest(slice_, type_, "subjects", "roleRef").items():
            before = slice_.past.before(key, one.at)
            if before is not None:
                was = _accounts(key, before)
                now = _accounts(key, slice_.state(key) or {})
                same = at(before, "roleRef") == at(slice_.state(key), "roleRef")
                yield _Loss(
                    one,
                    frozenset(was - now if same else was),
                    frozenset(rights(_role(slice_, key, before), key.namespace)),
                )
    for type_ in (ROLE, CLUSTER_ROLE):
        for key, one in _latest(slice_, type_, "rules").items():
            before = slice_.past.before(key, one.at)
            for binding in slice_.sources(key, "BINDS", BINDING, CLUSTER_BINDING):
                where = binding.namespace
                now_ = rights(slice_.state(key), where)
                lost = {each for each in rights(before, where) if not _covers(now_, each)}
                yield _Loss(one, frozenset(_accounts(binding, slice_.state(binding) or {})), frozenset(lost))


def _latest(slice_: Slice, type_: str, *fields: str) -> dict[Key, Made]:
    found: dict[Key, Made] = {}
    for one in slice_.past.recent(type_):
        rows = tuple(row for row in one.change.fields if row.path.partition("[")[0].partition(".")[0] in fields)
        if rows or one.change.op == "delete":
            found.setdefault(one.change.object.key, Made(one, rows if one.change.op != "delete" else ()))
    # What was made anew since is judged by what it is now, as after any other change.
    return found


def _role(slice_: Slice, binding: Key, state: State) -> State | None:
    kind, name = text(state, "roleRef", "kind"), text(state, "roleRef", "name")
    type_ = f"{_GROUP}/{kind}"
    key = beside(binding, type_, name, binding.namespace if kind == "Role" else None)
    found = slice_.state(key)
    return found if found is not None else slice_.past.before(key, slice_.at)


def _accounts(binding: Key, state: State) -> set[Key]:
    return {
        beside(binding, _ACCOUNT, text(one, "name"), text(one, "namespace") or binding.namespace)
        for one in maps(state, "subjects")
        if text(one, "kind") == "ServiceAccount"
    }


def held(slice_: Slice, account: Key) -> set[Right]:
    """What an account may do now."""
    found: set[Right] = set()
    for binding in slice_.sources(account, "GRANTS", BINDING, CLUSTER_BINDING):
        state = slice_.state(binding)
        if state is not None:
            for role in slice_.targets(binding, "BINDS"):
                found |= rights(slice_.state(role), binding.namespace)
    return found


@check(
    "permission-lost", reads=(ROLE, BINDING, POD), also=(CLUSTER_ROLE, CLUSTER_BINDING, _ACCOUNT, *WORKLOADS),
    when="a recorded change of a Role or Binding took from an account rights that nothing else gives it; a binding of "
    "a workload went as a whole, or the workload complains or crashes, or a finalizer stays that needs what was lost",
    why="what the workload is refused it cannot do: watch its configuration, hold its lease, finish a deletion",
    silent=(
        "another binding gives the same",
        "nothing runs as that account any more",
        "a role was narrowed, and nothing shows that what went was needed",
        "the change is younger than 10 s",
    ),
    fix="give the role its rules, or the account its binding, back",
    example="a Role loses update on configmaps; a deleted ConfigMap keeps the finalizer of the account's controller",
)  # fmt: skip
def permission_lost(slice_: Slice) -> Iterator[Found]:
    for made, accounts, lost in losses(slice_):
        if not slice_.lasts(made.at):
            continue
        for account in sorted(accounts):
            missing = sorted(one for one in lost if not _covers(held(slice_, account), one))
            users = [one for one, _ in tops(slice_) if account in slice_.targets(one, "RUNS_AS", _ACCOUNT)]
            if not missing:
                continue
            heard = [one for user in users for one in _complaints(slice_, user)]
            stuck = [key for key in _stuck(slice_) if any(_releases(one, key) for one in missing)]
            whole = not made.rows and users
            # Most finalizers are taken off from outside of what was recorded, so their owner need not run here.
            if not (whole or (users and (heard or _unwell(slice_, users))) or stuck):
                continue
            named = ", ".join(map(str, missing[:4])) + (" …" if len(missing) > 4 else "")
            what = f"{made.key.kind} {made.key.name}"
            verb = "is gone" if made.recorded.change.op == "delete" else "was changed"
            sentence = f"{what} {verb}: ServiceAccount {account.name} may no longer {named}"
            cited = tuple(Cited(made.key, row.path, row.after) for row in made.rows) or (Cited(made.key, "", None),)
            others = (account, *users, *stuck)
            yield Found(made.key, sentence, cited, (made,), others, tuple(heard[:1]))


def _complaints(slice_: Slice, user: Key) -> list[Evidence]:
    keys = [user, *(pod for pod, _ in pods_of(slice_, user))]
    return [one for key in keys for one in slice_.heard(key) if "forbidden" in (one.message or "").lower()]


def _unwell(slice_: Slice, users: list[Key]) -> bool:
    return any(next(waits(state), None) is not None for user in users for _, state in pods_of(slice_, user))


def _releases(right: Right, key: Key) -> bool:
    """Whether a right is one that taking a finalizer off an object needs."""
    group, _, kind = key.type.partition("/")
    same = right.resource == "*" or right.resource.partition("/")[0].startswith(kind.lower()[:-1])
    return right.verb in _TAKES_AWAY and right.group in ("*", "" if group == "core" else group) and same


def _stuck(slice_: Slice) -> Iterator[Key]:
    """Objects on their way out that a finalizer, which is not Kubernetes' own, holds for longer than its grace."""
    for key in dict.fromkeys(one.src for one in slice_.edges if one.predicate == "BLOCKED_BY"):
        state = slice_.state(key)
        if state is not None and _foreign(state) and _leaving(slice_, key, state, GRACE):
            yield key


def _foreign(state: State) -> list[str]:
    listed = at(state, "metadata", "finalizers")
    names = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return [one for one in names if not one.startswith(_OWN)]


def _leaving(slice_: Slice, key: Key, state: State, grace: int) -> bool:
    """Whether an object has been on its way out for longer than a grace."""
    began = slice_.changed(key, "metadata.deletionTimestamp")
    if began and began[0].rows:
        return slice_.lasts(began[0].at, grace)
    try:
        return slice_.at - parse(text(state, "metadata", "deletionTimestamp")) >= grace
    except BadInstant:
        return False


@check(
    "stuck-terminating", reads=(), also=(POD, *WORKLOADS, "core/Namespace", "core/PersistentVolumeClaim",
                                         "core/PersistentVolume", "core/ConfigMap", "core/Secret", "core/Service"),
    when="an object is on its way out for longer than 20 s, or 10 minutes where the finalizers are Kubernetes' own, "
    "and finalizers are left",
    why="it does not go, and neither does what waits for it, such as its namespace",
    silent=(
        "it went, or its last finalizer did",
        "Kubernetes' own finalizers hold it for less than 10 minutes: disks and load balancers take their time",
        "it is on its way out without a finalizer, as a pod in its grace period",
    ),
    fix="see why the owner of the finalizer does not take it off: is it there, may it still?",
    example="a ConfigMap with the finalizer holds.example/release is Terminating for a minute",
)  # fmt: skip
def stuck_terminating(slice_: Slice) -> Iterator[Found]:
    for key in dict.fromkeys(one.src for one in slice_.edges if one.predicate == "BLOCKED_BY"):
        state = slice_.state(key)
        if state is None or not _leaving(slice_, key, state, 2 * GRACE if _foreign(state) else _LONG):
            continue
        names = [str(one.attrs.get("finalizer")) for one in slice_.out(key, "BLOCKED_BY")]
        began = [one for one in slice_.changed(key, "metadata.deletionTimestamp") if one.rows]
        cited = (
            Cited(key, "metadata.deletionTimestamp", text(state, "metadata", "deletionTimestamp")),
            Cited(key, "metadata.finalizers", [*names]),
        )
        # Who deleted it is not to blame that it stays.
        since = began[0].at if began else None
        yield Found(key, f"it should be gone, but {', '.join(names)} holds it", cited, since=since)


CHECKS = (permission_lost, stuck_terminating)
