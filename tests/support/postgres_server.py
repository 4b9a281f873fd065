"""A real PostgreSQL of a test's own, which can be killed and started again."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.ports import free_port
from tests.support.programs import Program
from tests.support.secrecy import CANARY

# Debian keeps the programs of each version in a folder of its own, which is not on PATH.
_FOLDERS: Final = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_PATH: Final = os.pathsep.join([*map(str, _FOLDERS), os.environ.get("PATH", "")])
INITDB: Final = shutil.which("initdb", path=_PATH)
PROGRAM: Final = shutil.which("postgres", path=_PATH)

POSTGRES: Final = INITDB is not None and PROGRAM is not None
NEEDS_POSTGRES: Final = pytest.mark.skipif(
    not POSTGRES, reason="not tested, because no postgres was found"
)


class PostgresServer(Program):
    """A server with its files in a folder of its own.

    Without `syncs` it does not wait for the disk, which others may keep busy for a minute: a killed
    server loses nothing by that, a machine without power would.
    """

    # The name of its only role, which may do everything. The password is `CANARY`.
    role: Final = "fleet"

    def __init__(self, *, syncs: bool = True) -> None:
        # Not a folder of pytest: root owns these, and the server refuses to run as root.
        self._folder = Path(tempfile.mkdtemp(prefix="gateway-sdk-postgres-"))
        self.port = free_port()
        options: dict[str, Any] = {"cwd": self._folder}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": ()}
        command = [
            *(PROGRAM or "postgres", "-D", str(self._folder / "data")),
            *("-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}"),
            *("-c", "unix_socket_directories=", "-c", "shared_buffers=32MB"),
            # After a kill, one call in place of one for each of a thousand files.
            *("-c", "recovery_init_sync_method=syncfs", "-c", f"fsync={'on' if syncs else 'off'}"),
        ]
        super().__init__(command, self._folder / "log", **options)
        self._databases = 0

    def address(self, database: str = "postgres", *, password: str = CANARY) -> str:
        return f"postgresql://{self.role}:{password}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        secret = self._folder / "password"
        secret.write_text(CANARY)
        secret.chmod(0o644)  # the folder is closed to others
        subprocess.run(
            [
                INITDB or "initdb", "--pgdata", str(self._folder / "data"), "--no-sync",
                "--username", self.role, "--pwfile", str(secret), "--auth", "md5",
                "--encoding", "UTF8", "--locale", "C",
            ],
            check=True, capture_output=True, **self._options,
        )  # fmt: skip

    def start(self) -> None:
        end = time.monotonic() + self.patience
        while True:
            try:
                return super().start()
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                # The children of a killed server hold its memory until they notice its death.
                time.sleep(0.1)

    def answers(self) -> bool:
        try:
            psycopg.connect(self.address(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def start_again(self) -> None:
        if self._process is None:
            self.start()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def new_database(self) -> str:
        self._databases += 1
        name = f"test_{self._databases}"
        await self.execute(f"create database {name}")
        return self.address(name)

    async def empty_database(self) -> str:
        if not self._databases:
            await self.new_database()
        address = self.address("test_1")
        await self.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()",
            "drop schema if exists gateway_fleet cascade",
            "drop schema public cascade",
            "create schema public",
            dsn=address,
        )
        return address

    async def execute(self, *statements: Any, dsn: str = "") -> list[Any]:
        """Run statements, one transaction each; return the rows of the last one."""
        rows: list[Any] = []
        address = dsn or self.address()
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
            for statement in statements:
                found = await connection.execute(statement)
                rows = await found.fetchall() if found.description else []
        return rows


def point_libpq_at(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address = conninfo_to_dict(dsn)
    for variable in ("host", "port", "user", "password"):
        monkeypatch.setenv(f"PG{variable.upper()}", str(address[variable]))
    monkeypatch.setenv("PGDATABASE", str(address["dbname"]))
