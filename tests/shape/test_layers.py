"""The house: arrows go down only, and there is no circle of any kind."""

import ast
from functools import cache
from pathlib import Path

import pytest

import gateway_sdk

ROOT = Path(gateway_sdk.__file__).parent

# From the ground up; a module may import those of the rows below its own, and its own folder.
LAYERS = (
    ("outcome", "models"),
    ("errors", "operations"),
    ("_checks", "_terminal", "_url", "observer"),
    ("auth", "_http", "otel", "rate_limit", "retry_policy", "sandbox", "sentry"),
    ("_content", "_transport"),
    ("_call",),
    ("bulk",),
    ("areas",),
    ("session",),
    ("cluster",),
)
# Two kinds stand outside. The tools import nothing of ours, and any module may import them. The
# faces, which are the names of the package and the command line, show what there is: they may
# import anything below, and nothing imports them.
TOOLS = {"_files", "_peer", "_python", "_version", "_waiting"}
FACES = {"", "cli"}
LEVEL = {name: level for level, row in enumerate(LAYERS) for name in row}

# The files of a public folder that can be imported; all others stand under an underscore.
PUBLIC: dict[str, set[str]] = {
    "auth": {"flow", "source", "token"},
    "bulk": {"results"},
    "cluster": set(),
    "errors": set(),
    "sandbox": set(),
}

FOREIGN = {
    "logging": {"_python", "cli", "cluster", "sandbox"},  # all others log with `Log`
    "tenacity": {"_call"},
    "httptools": {"_transport"},
    "authlib": {"auth"},
    "opentelemetry": {"otel"},
    "h11": {"auth"},
    "keyring": {"auth"},
    "redis": {"auth"},
    "sentry_sdk": {"sentry"},
    "starlette": {"sandbox"},
    "uvicorn": {"sandbox"},
    "typer": {"cli"},
    "rich": {"cli"},
    "matplotlib": {"cli"},
    "simplejson": {"cli"},
    "pyarrow": {"bulk", "cli"},
}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def imports(path: Path) -> frozenset[str]:
    """Return what a file imports anywhere: at its top, in functions, for type checkers."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            assert node.level == 0, f"{path.name}: a relative import hides where it goes"
    return frozenset(names)


def ours(path: Path) -> set[str]:
    found = set()
    for name in imports(path):
        if name.partition(".")[0] == "gateway_sdk":
            inner = name.partition(".")[2]
            while inner not in MODULES:
                inner = inner.rpartition(".")[0]
            found.add(inner)
    return found


def room_of(module: str) -> str:
    return module.partition(".")[0]


def test_arrows_go_down_only() -> None:
    for module in MODULES.keys() - TOOLS:
        room = room_of(module)
        for imported in ours(MODULES[module]) - TOOLS:
            other = room_of(imported)
            may = other not in FACES and (room in FACES or LEVEL[other] < LEVEL[room])
            assert other == room or may, f"{module} imports {imported}"


def test_tools_know_nothing_of_the_package() -> None:
    assert not any(ours(MODULES[tool]) for tool in TOOLS)


def test_there_is_no_circle_of_any_kind() -> None:
    """Peeling off modules that import none of those left over leaves nothing."""
    left = {name: ours(path) - {name} for name, path in MODULES.items()}
    while left:
        leaves = {name for name, imported in left.items() if not imported & left.keys()}
        assert leaves, f"a circle among {sorted(left)}"
        left = {name: imported for name, imported in left.items() if name not in leaves}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_each_library_has_its_room(foreign: str) -> None:
    users = {
        module.partition(".")[0]
        for module, path in MODULES.items()
        if any(name.partition(".")[0] == foreign for name in imports(path))
    }

    assert users <= FOREIGN[foreign]


# What a wing has of the rest that users do not have. The command line writes the environment of
# other programs, keeps the port of a login, and shows the sandbox's data; what adds an observer to
# every session must load nothing else.
NOT_PUBLIC = {
    "cli": {
        "_python", "_terminal", "_url", "_version", "auth._login.login",
        "auth._login.server", "sandbox._reference_data",
    },
    "cluster": {"_version"},
    "otel": {"_version"},
    "sandbox": set(),
    "sentry": {"_python"},
    "../_gateway_sdk_otel": {"_python"},
    "../_gateway_sdk_pytest": set(),
}  # fmt: skip


@pytest.mark.parametrize("wing", NOT_PUBLIC)
def test_a_wing_stands_on_public_names(wing: str) -> None:
    paths = [path for module, path in MODULES.items() if room_of(module) == wing]
    private = {
        name
        for path in paths or [ROOT / f"{wing}.py"]
        for name in ours(path)
        if room_of(name) != wing and any(part.startswith("_") for part in name.split("."))
    }

    assert private == NOT_PUBLIC[wing]


def test_the_sandbox_knows_nothing_of_the_sdk() -> None:
    """But what to raise if its extra is not installed."""
    for module, path in MODULES.items():
        if module.partition(".")[0] == "sandbox":
            known = {name.partition(".")[0] for name in ours(path)}
            assert known <= {"sandbox", *["errors"] * (module == "sandbox")}, module


@pytest.mark.parametrize("folder", PUBLIC)
def test_what_is_not_public_stands_under_an_underscore(folder: str) -> None:
    inside = {name.split(".")[1] for name in MODULES if name.startswith(f"{folder}.")}

    assert {name for name in inside if not name.startswith("_")} == PUBLIC[folder]
