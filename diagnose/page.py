"""The page about the checks, made from the catalogue: `make docs` writes it, a test holds it.

python -m diagnose.page > docs/checks.md
"""

from __future__ import annotations

import sys

from diagnose.catalogue import CHECKS
from diagnose.check import Check

_HEAD = """\
# Checks

Made from the catalogue in `diagnose/checks` by `make docs`.

`hindgraph check` and `GET /v1/findings` say what is wrong at an instant, as recorded; `hindgraph symptoms` and
`GET /v1/symptoms` give the symptoms among it. A **symptom** is visible but no cause: it says where to begin to look. A
**mechanism** says how something comes about, and names the recorded change that made it so. Both are findings: the
check, the object that is wrong, a sentence, the field values it rests on, since when, the changes, the evidence
([answers](answers.md)). `since` is null, and no change is named, where it was so before the recording began.

Silence on a healthy cluster comes first: what may be a restart, a scaling or a rollout that goes well has its grace of
10 s, and a test asks recorded healthy clusters at their changes. A check whose types were not watched is told among
what is unknown.

## Scoring
`hindgraph eval DIR` answers recordings with a known truth: `x.jsonl.gz` with `x.truth.json` beside it, which is
`{"id","mechanism","healthy","visible","causes":[{"kind","namespace","name","op","path","after","at"}],"accept":[…]}`;
`accept` are further objects (`kind namespace name`) that count as naming the component, `visible` false means that the
cause never enters the API. A healthy recording is right where nothing is found at any of its changes; what came before
the first cause of another is asked the same, and counted as `noisy`. A fault is right where the first component named
is a cause (or accepted), and each cause is named with its field. `beside` counts components that were named and are no
cause. `--min 0.9` gives exit code 1 where fewer are right.
"""


def page() -> str:
    """The text of docs/checks.md."""
    return "\n".join([_HEAD, *map(_section, CHECKS)])


def _section(one: Check) -> str:
    reads = ", ".join(type_.rpartition("/")[2] for type_ in one.reads) or "evidence"
    also = ", ".join(type_.rpartition("/")[2] for type_ in one.also)
    return "\n".join(
        [
            f"## {one.id}",
            f"{one.says}, version {one.version}; reads {reads}{f'; where watched also {also}' if also else ''}",
            "",
            f"- **When** {one.when}.",
            f"- **Why** {one.why}.",
            f"- **Silent while** {'; '.join(one.silent)}.",
            f"- **Example** {one.example}.",
            f"- **To do** {one.fix}.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(page())
