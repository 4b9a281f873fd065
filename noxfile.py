"""The checks: `nox` takes three minutes, `nox -s full` runs all, `nox -l` lists the sessions."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.reuse_existing_virtualenvs = True

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
NEXT = "3.14"  # the newest; where it is not installed, Debian's next release has it
EVERYTHING = ".[all]"
SOURCES = ("src", "tests", "examples", "benchmarks", "noxfile.py")


def works(python: str, version: str) -> bool:
    """Tell whether an interpreter starts and has this version; a shim of pyenv may fail."""
    code = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def find(version: str) -> str | None:
    """Return the folder of an interpreter of a version, from PATH or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = (shutil.which(name) for name in (f"python{version}", "python3"))
    kept_by_pyenv = sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)
    for python in [*(name for name in on_path if name), *map(str, kept_by_pyenv)]:
        if works(python, version):
            return str(Path(python).parent)
    return None


FOUND = {version: folder for version in PYTHONS if (folder := find(version))}
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
FOUND.setdefault(
    RUNNING, str(Path(sys.executable).parent)
)  # it may be newer than those of pyproject.toml
MEASURED = list(FOUND)[-1]
REDIS = shutil.which("redis-server")
# They have their own sessions.
APART = tuple(f"--ignore=tests/{folder}" for folder in ("bare", "frozen", "real", "site"))
# One more process than processors: often a test waits for a browser, a server or another process.
IN_PARALLEL = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal")
BROWSERS = {
    "Chromium": ("chromium", "chromium-browser", "google-chrome"),
    "Firefox": ("firefox-esr", "firefox"),
    "WebKitGTK (webkit2gtk-driver)": ("WebKitWebDriver",),
    "Xvfb, for WebKitGTK": ("Xvfb",),
}
# Before pyenv's shims, some of which cannot start their version.
os.environ["PATH"] = os.pathsep.join([*FOUND.values(), os.environ.get("PATH", "")])
# The tests start some hundred processes: without bytecode each compiles all libraries again, which
# doubles the time of the suite. Images of containers often set it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The journals of the tests are brought to the disk some thousand times, for which nothing waits in
# memory. A container may have little of it, or start no programs there.
MEMORY = Path("/dev/shm")  # noqa: S108 - its folders are pytest's
if (
    MEMORY.is_mount()
    and shutil.disk_usage(MEMORY).free > 1 << 30
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


def group(name: str) -> list[str]:
    """Return the packages of a dependency group of pyproject.toml."""
    return list(nox.project.dependency_groups(PROJECT, name))


@nox.session(python=list(FOUND))
def tests(session: nox.Session) -> None:
    """Run the whole suite in parallel, examples, documents and browser included."""
    install_for_tests(session)
    session.run("pytest", *IN_PARALLEL, *APART, *session.posargs)


@nox.session(python=MEASURED)
def on_uvloop(session: nox.Session) -> None:
    """Run the tests of sessions, calls and connections on uvloop's event loop."""
    session.install("-e", EVERYTHING, *group("test"))
    folders = ("tests/call", "tests/session", "tests/transport", "tests/errors", "tests/bulk")
    session.run("pytest", *IN_PARALLEL, "--uvloop", *folders, *session.posargs)


@nox.session(python=MEASURED)
def coverage(session: nox.Session) -> None:
    """Run the suite; all of src must be covered, branches too."""
    install_for_tests(session)
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *IN_PARALLEL, *APART, *session.posargs)
    session.run("coverage", "combine", "--quiet")
    if not REDIS:
        session.warn("not measured, because no redis-server was found: */auth/_stores/services.py")
    session.run("coverage", "report", *([] if REDIS else ["--omit=*/auth/_stores/services.py"]))


def install_for_tests(session: nox.Session) -> None:
    """Install what the suite needs, and warn of the tests that are skipped without a program."""
    if not REDIS:
        session.warn("not tested, because no redis-server was found: Redis, for tokens and queues")
    for name, programs in BROWSERS.items():
        is_used = name == "Chromium" or "--full" in session.posargs
        if is_used and not any(map(shutil.which, programs)):
            session.warn(f"not tested, because no {name} was found: logging in with it")
    groups = ("test", "browser", "examples")
    packages = (package for name in groups for package in group(name))
    # Else each of the parallel processes compiles all packages, at the same time as the others.
    compiling = {"UV_COMPILE_BYTECODE": "1"}
    session.install("-e", EVERYTHING, *packages, env=compiling)


@nox.session
def bare(session: nox.Session) -> None:
    """Import and use the package without any extra."""
    session.install("-e", ".", *(name for name in group("test") if "pytest" in name), "hypothesis")
    session.run("pytest", "tests/bare")


@nox.session(python="3.11", default=False)
def floors(session: nox.Session) -> None:
    """Make calls, use the plugin and the command line with the lowest versions that we accept."""
    session.install("uv")
    lowest = ("--resolution", "lowest-direct")
    session.run("uv", "pip", "install", *lowest, "-e", EVERYTHING)
    session.run("uv", "pip", "install", *(name for name in group("test") if "pytest" in name))
    session.run("uv", "pip", "install", "hypothesis")
    # All but the test of a missing extra: here all are installed.
    tests = ("tests/bare", "tests/kit/test_fixtures.py", "tests/cluster/test_run.py")
    session.run("pytest", *tests, "-k", "not extra")
    session.run("gateway", "rates", "--help", silent=True)


@nox.session(python=MEASURED, default=False)
def frozen(session: nox.Session) -> None:
    """Make apps of one file with PyInstaller, and a zipapp, and run them."""
    tools = (name for name in group("test") if "pytest" in name)
    session.install("-e", ".[cli,sandbox]", *tools, "hypothesis", *group("frozen"))
    # PyInstaller takes a minute for each of the files.
    session.run("pytest", "-n", "2", "--dist", "loadfile", "tests/frozen")


@nox.session(default=False)
def windows(session: nox.Session) -> None:
    """Run the tests on Windows' CPython with wine64, uv and mingw (see .ci/windows/run)."""
    session.install("uv")
    without = (
        "bare",
        "benchmarks",
        "browser",
        "examples",
        "frozen",
        "real",
        "shape",
        "site",
        "typing",
    )
    arguments = (*IN_PARALLEL, *(f"--ignore=tests/{folder}" for folder in without), "-rs")
    folder = session.create_tmp()
    session.run(
        ".ci/windows/run", folder, "-m", "pytest", *(session.posargs or arguments), external=True
    )


@nox.session(default=False, venv_backend="none")
def next_python(session: nox.Session) -> None:
    """Run the suite on Debian's next release, as root with mmdebstrap (see .ci/next_python)."""
    session.run(".ci/next_python", session.create_tmp(), NEXT, external=True)


@nox.session
def beside_httpx2(session: nox.Session) -> None:
    """Run the tests with httpx2 installed too, as it is with openai and other clients.

    Left out is what only uses sessions, or none: it meets no library for HTTP itself.
    """
    session.install("-e", EVERYTHING, *group("test"), *group("benchmarks"))
    folders = ("auth", "call", "errors", "http", "kit", "otel", "session", "transport")
    session.run("pytest", *IN_PARALLEL, *(f"tests/{folder}" for folder in folders))


@nox.session(python=MEASURED)
def real(session: nox.Session) -> None:
    """Make calls through other servers, which are reloaded and killed, and log in at Django."""
    session.install("-e", EVERYTHING, *group("test"), *group("browser"), *group("real"))
    session.run("pytest", "tests/real", *session.posargs)


@nox.session(default=False)
def benchmarks(session: nox.Session) -> None:
    """Test the benchmarks with all clients they compare, and run them; `-- PART` for a part."""
    install_for_tests(session)  # of which the time is measured
    session.install(*group("benchmarks"))
    session.run("pytest", "--full", "tests/benchmarks")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*group("lint"))
    session.run("ruff", "check", *SOURCES)
    session.run("ruff", "format", "--check", *SOURCES)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with two checkers; also the code in the documents, as its readers check it."""
    groups = (
        package for name in ("test", "browser", "examples", "types") for package in group(name)
    )
    session.install("-e", EVERYTHING, *groups, "nox")
    python = str(Path(session.bin) / "python")
    users = str(Path(session.create_tmp()) / "users")
    session.run("python", "-m", "tests.support.documents", users)
    checks = (
        # The second takes the cache of the first: the options that decide on it are the same.
        (["mypy"], ["mypy", "--config-file", f"{users}/mypy.ini", "--warn-unreachable", users]),
        (["basedpyright", "--pythonpath", python],),
        (["basedpyright", "--pythonpath", python, "--project", users],),
    )

    def check(commands: tuple[list[str], ...]) -> list[Any]:
        return [session.run(*command, silent=True) for command in commands]

    with ThreadPoolExecutor() as pool:
        for shown in pool.map(check, checks):  # those that failed have shown their output already
            session.log("".join(filter(None, shown)))


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site into site/, and test it in Chromium."""
    session.install("-e", EVERYTHING, *group("test"), *group("browser"), *group("docs"))
    session.run("zensical", "build", "--clean", "--strict")
    session.run("pytest", "tests/site")


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build the wheel and the source archive, and check the content of the wheel."""
    session.install("build")
    session.run("python", "-m", "build", "--outdir", str(Path(session.create_tmp()) / "dist"))
    wheel = next((Path(session.create_tmp()) / "dist").glob("*.whl"))
    session.run("python", "-m", "zipfile", "--test", str(wheel))
    listing = session.run("python", "-m", "zipfile", "--list", str(wheel), silent=True)
    for name in ("_gateway_sdk_otel.py", "_gateway_sdk_pytest.py", "gateway_sdk/py.typed"):
        if name not in str(listing):
            session.error(f"the wheel lacks {name}")


@nox.session(default=False, venv_backend="none")
def full(session: nox.Session) -> None:
    """Run the other Pythons and servers, and the long sweeps.

    These are the same on each Python, and take twice the time where lines are counted: one Python
    has them that is not measured, if there is one.
    """
    others = [f"tests-{version}" for version in FOUND if version not in (RUNNING, MEASURED)]
    missing = set(PYTHONS) - set(FOUND)
    if NEXT in missing and shutil.which("mmdebstrap"):
        missing.remove(NEXT)
        others.append("next_python")
    if missing:
        session.warn(f"not tested, because not installed: Python {', '.join(sorted(missing))}")
    sweeping = next((name for name in others if name != "next_python"), "coverage")
    for name in (
        *others,
        "coverage",
        "on_uvloop",
        "beside_httpx2",
        "bare",
        "floors",
        "frozen",
        "real",
        "docs",
        "build",
    ):
        session.notify(name, ["--full"] if name == sweeping else None)


nox.options.sessions = [f"tests-{RUNNING}", "lint", "types"]
