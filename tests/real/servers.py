"""How the gateway runs behind each real server: its configuration, and how it is started."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.real.ledger import BUSY, EXPIRED, Ledger, read_ledger
from tests.real.programs import Program, find, running, until
from tests.real.upstream import serving_upstream
from tests.support.ports import free_port

ROOT: Final = Path(__file__).parents[2]

NGINX: Final = """
daemon off;
{user}
worker_processes 2;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_timeout {keep_alive}s;
  client_max_body_size 1m;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_set_header X-Connection $pid-$connection;
    }}
    location /decoded/ {{ proxy_pass http://127.0.0.1:{upstream}/; }}
    location /401/ {{ client_max_body_size 0; return 401; }}
    location /429/ {{ client_max_body_size 0; return 429; }}
  }}
}}
"""

HAPROXY: Final = """
global
  maxconn 256
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout http-keep-alive {keep_alive}s
frontend clients
  bind 127.0.0.1:{port}
  http-request set-header X-Connection 0-%[src_port]
  http-request return status 401 if {{ path_beg /401/ }}
  http-request return status 413 if {{ path_beg /413/ }}
  http-request return status 429 if {{ path_beg /429/ }}
  default_backend gateway
backend gateway
  server upstream 127.0.0.1:{upstream}
"""

LIGHTTPD: Final = """
server.port = {port}
server.bind = "127.0.0.1"
server.document-root = "{folder}"
server.upload-dirs = ( "{folder}" )
server.max-keep-alive-idle = {keep_alive}
server.modules = ( "mod_auth", "mod_proxy" )
$REQUEST_HEADER["Authorization"] == "Bearer {expired}" {{
  auth.require = ( "" => ( "method" => "extern", "realm" => "", "require" => "valid-user" ) )
}}
proxy.server = ( "" => (( "host" => "127.0.0.1", "port" => {upstream} )) )
"""

Act = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Place:
    """A server that runs."""

    url: str
    program: Program
    ledger: Callable[[], Ledger]  # gives what was executed behind it until now
    # Does something while it owes answers to requests that were executed.
    while_busy: Callable[[Act], Awaitable[None]]

    async def restart(self) -> None:
        await self.while_busy(self.program.restart)

    async def kill_worker(self) -> None:
        async def kill() -> None:
            await self.program.kill_worker(self.ledger().worker)

        await self.while_busy(kill)


Serve = Callable[[Path, int], AbstractAsyncContextManager[Place]]
"""Takes a folder of the test's own, and how many seconds an idle connection is kept."""


@asynccontextmanager
async def nginx(folder: Path, keep_alive: int) -> AsyncIterator[Place]:
    path = folder / "nginx.conf"
    command = [find("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(path)]
    user = "user root;" if os.geteuid() == 0 else ""
    async with _in_front(NGINX, path, command, keep_alive, user=user) as place:
        yield place


@asynccontextmanager
async def haproxy(folder: Path, keep_alive: int) -> AsyncIterator[Place]:
    path = folder / "haproxy.cfg"
    command = [find("haproxy"), "-W", "-db", "-f", str(path)]
    async with _in_front(HAPROXY, path, command, keep_alive) as place:
        yield place


@asynccontextmanager
async def lighttpd(folder: Path, keep_alive: int) -> AsyncIterator[Place]:
    """Serve with lighttpd as a reverse proxy that itself refuses the expired token."""
    path = folder / "lighttpd.conf"
    command = [find("lighttpd"), "-D", "-f", str(path)]
    async with _in_front(LIGHTTPD, path, command, keep_alive, expired=EXPIRED) as place:
        yield place


@asynccontextmanager
async def _in_front(
    text: str, path: Path, command: list[str], keep_alive: int, **more: str
) -> AsyncIterator[Place]:
    port = free_port()
    async with serving_upstream() as upstream:
        values = {"port": port, "upstream": upstream.port, "keep_alive": keep_alive, **more}
        configuration = text.format(folder=path.parent, **values)
        await asyncio.to_thread(path.write_text, configuration, encoding="ascii")
        with running(command, port, path.parent) as program:
            yield Place(f"http://127.0.0.1:{port}", program, lambda: upstream, upstream.while_busy)


def application_server(name: str, options: Callable[[str, int], list[str]]) -> Serve:
    """Return how the application runs in a program; *options* of a port and of keep-alive."""

    @asynccontextmanager
    async def serve(folder: Path, keep_alive: int) -> AsyncIterator[Place]:
        port, path, held = free_port(), folder / "ledger.txt", folder / "held"

        def ledger() -> Ledger:
            return read_ledger(path)

        async def while_busy(act: Act) -> None:
            held.touch()
            try:
                before = ledger().executed.total()
                await until(lambda: ledger().executed.total() >= before + BUSY)
                await act()
            finally:
                held.unlink()

        environment = {
            "LEDGER": str(path),
            "HELD": str(held),
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
        }
        command = [find(name), *options(str(port), keep_alive)]
        with running(command, port, folder, **environment) as program:
            yield Place(f"http://127.0.0.1:{port}", program, ledger, while_busy)

    return serve


gunicorn: Final = application_server(
    "gunicorn",
    lambda port, keep_alive: [
        *("--bind", f"127.0.0.1:{port}", "--keep-alive", str(keep_alive)),
        *("--workers", "2", "--threads", "16", "--graceful-timeout", "3"),
        "tests.real.application:wsgi",
    ],
)

granian: Final = application_server(
    "granian",
    lambda port, keep_alive: [
        *("--host", "127.0.0.1", "--port", port, "--interface", "asginl"),
        *("--http1-header-read-timeout", str(1000 * keep_alive)),
        *("--workers", "2", "--respawn-failed-workers", "--respawn-interval", "0.1"),
        *("--workers-kill-timeout", "3"),
        "tests.real.application:asgi",
    ],
)

hypercorn: Final = application_server(
    "hypercorn",
    lambda port, keep_alive: [
        *("--bind", f"127.0.0.1:{port}", "--keep-alive", str(keep_alive)),
        "tests.real.application:asgi",
    ],
)

uvicorn: Final = application_server(
    "uvicorn",
    lambda port, keep_alive: [
        *("--host", "127.0.0.1", "--port", port, "--timeout-keep-alive", str(keep_alive)),
        "tests.real.application:asgi",
    ],
)
