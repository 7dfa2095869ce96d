"""Every error that Hindgraph raises on purpose, as one tree.

Each says what happened, where, and what to do next; faces translate them (exit code on the command line, RFC 9457
problem on REST) by the two class attributes and never by matching text. Bugs are ordinary Python exceptions.

    HindgraphError
    ├── InputError                what was handed in cannot be used
    │   ├── BadInstant            a time without zone, or not a time
    │   ├── BadPath               a field path that does not parse
    │   ├── BadKey                an object key that does not parse
    │   ├── BadCursor             a page cursor that is not ours, or of another question
    │   ├── BadRecording          a recording file that is not one (header, version, compression)
    │   ├── BadSelection          what to record is chosen in a way that contradicts itself
    │   ├── BadKubeconfig         where the API server is, or how to authenticate, cannot be learnt or does not hold
    │   ├── BadAudit              an audit event or webhook body that is none (not JSON, another version)
    │   ├── BadRecord             a log record that does not parse, or of an unknown version
    │   └── Oversize              a record over the hard cap of the log
    ├── QuestionError             the question is well formed, the recorded past cannot answer it
    │   ├── UnknownObject         no such object was ever recorded (near names are suggested)
    │   ├── AmbiguousObject       the short name fits several objects
    │   ├── UnknownScope          no such scope was recorded, or one must be chosen
    │   ├── BeyondHorizon         the instant lies below the retention horizon
    │   └── InTheFuture           the instant lies after everything that was recorded
    ├── ApplyError                a record does not fit what is stored (it goes to the dead letters)
    │   ├── WrongBase             its base digest is not that of the state it claims to change
    │   ├── WrongDigest           the patched state has another digest than the record says
    │   ├── BadPatch              the patch does not apply
    │   ├── UnknownTarget         it amends or retracts a change that is not there
    │   ├── BelowHorizon          it tells of a time that retention has dropped
    │   └── IllegalEdge           a predicate or a pair of kinds outside the closed set
    └── StoreError                the store on disk cannot be used
        ├── StoreMissing          nothing was recorded at this home yet
        ├── StoreBusy             another writer holds it
        ├── StoreCorrupt          a checksum, digest or migration does not match
        └── StoreVersion          written by a newer Hindgraph
"""

from __future__ import annotations


class HindgraphError(Exception):
    """Root of the tree. `hint` says what to do; `exit_code` and `status` are what faces answer with."""

    exit_code = 70
    status = 500

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(HindgraphError):
    exit_code = 2
    status = 400


class BadInstant(InputError):
    pass


class BadPath(InputError):
    pass


class BadKey(InputError):
    pass


class BadCursor(InputError):
    pass


class BadRecording(InputError):
    exit_code = 65


class BadSelection(InputError):
    pass


class BadKubeconfig(InputError):
    pass


class BadAudit(InputError):
    exit_code = 65


class BadRecord(InputError):
    exit_code = 65


class Oversize(InputError):
    exit_code = 65
    status = 413


class QuestionError(HindgraphError):
    exit_code = 3
    status = 404


class UnknownObject(QuestionError):
    pass


class AmbiguousObject(QuestionError):
    status = 409


class UnknownScope(QuestionError):
    pass


class BeyondHorizon(QuestionError):
    status = 410


class InTheFuture(QuestionError):
    status = 400


class ApplyError(HindgraphError):
    exit_code = 65


class WrongBase(ApplyError):
    pass


class WrongDigest(ApplyError):
    pass


class BadPatch(ApplyError):
    pass


class UnknownTarget(ApplyError):
    pass


class BelowHorizon(ApplyError):
    pass


class IllegalEdge(ApplyError):
    pass


class StoreError(HindgraphError):
    exit_code = 74
    status = 503


class StoreMissing(StoreError):
    exit_code = 3
    status = 404


class StoreBusy(StoreError):
    exit_code = 75


class StoreCorrupt(StoreError):
    pass


class StoreVersion(StoreError):
    pass
