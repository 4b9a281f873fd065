"""How each real forward proxy is configured and started."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from tests.real.programs import Program, find, running
from tests.support.ports import free_port

SQUID: Final = """
http_port 127.0.0.1:{port}
http_access allow all
{more}
visible_hostname localhost
dns_nameservers 127.0.0.1
cache deny all
cache_mem 0
access_log none
cache_log {folder}/cache.log
pid_filename none
netdb_filename none
coredump_dir {folder}
pinger_enable off
shutdown_lifetime 0 seconds
max_filedescriptors 1024
"""

TINYPROXY: Final = """
Port {port}
Listen 127.0.0.1
Allow 127.0.0.1
MaxClients 100
Timeout 30
LogLevel Error
"""

Serve = Callable[[Path], AbstractContextManager[Program]]


@contextmanager
def squid(folder: Path, more: str = "") -> Iterator[Program]:
    """Run squid, which gives up being root for the user who owns its folder."""
    port, path = free_port(), folder / "squid.conf"
    path.write_text(SQUID.format(port=port, folder=folder, more=more), encoding="ascii")
    command = [find("squid"), "-N", "-f", str(path)]
    if os.geteuid() == 0:
        shutil.chown(folder, "proxy", "proxy")
    with running(command, port, folder) as program:
        yield program


@contextmanager
def tinyproxy(folder: Path) -> Iterator[Program]:
    port, path = free_port(), folder / "tinyproxy.conf"
    path.write_text(TINYPROXY.format(port=port), encoding="ascii")
    with running([find("tinyproxy"), "-d", "-c", str(path)], port, folder) as program:
        yield program
