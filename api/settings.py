"""Where things are: one settings class, read from the environment with the prefix HINDGRAPH_.

The home folder holds the embedded log, the ledger made of it and the key that redaction hashes with. What is in those
files is known to `store` and `capture`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import quote

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from schema.errors import StoreCorrupt

_KEY_BYTES = 32


class Settings(BaseSettings):
    """Every setting, each overridden by an environment variable HINDGRAPH_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="HINDGRAPH_", env_ignore_empty=True)

    home: Path = Field(
        default_factory=lambda: user_data_path("hindgraph"), description="folder of the embedded log and ledger"
    )

    @property
    def log(self) -> Path:
        return self.home / "log.sqlite"

    @property
    def ledger(self) -> Path:
        return self.home / "ledger.sqlite"

    def recorder(self, scope: str) -> Path:
        """What a recorder of this scope remembers; a file for each, since each commits for itself."""
        return self.home / "recorder" / f"{quote(scope, safe='')}.sqlite"

    @property
    def scratch(self) -> Path:
        """Where a ledger is made that is to take the place of the other."""
        return self.home / "ledger.next.sqlite"

    def redaction_key(self) -> bytes:
        """The key of this home, made on first use and readable by its owner only.

        It is written whole under another name and then linked: two processes that start together agree on one key.
        """
        path = self.home / "redaction.key"
        if not path.exists():
            if self.log.exists():
                raise StoreCorrupt(
                    f"{path} is missing, but {self.log} was written with it: a new key would make every secret differ",
                    hint="restore the key from a backup of this home, or record into another home",
                )
            self.home.mkdir(parents=True, exist_ok=True)
            draft = self.home / f".redaction.{os.getpid()}.{secrets.token_hex(4)}"
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise StoreCorrupt(f"{path} is not a redaction key", hint="restore it from a backup of this home")
        return key
