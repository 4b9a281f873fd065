"""The code in the documents runs, and their tables say what the code does."""

import inspect
import re
import tomllib
from dataclasses import fields
from fnmatch import fnmatch
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

import gateway_sdk
from gateway_sdk import RetryBudget, RetryPolicy, auth, bulk, cluster, models, otel, sandbox
from gateway_sdk.auth import SharedTokenSource
from gateway_sdk.bulk._start import RUN
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Repeatability
from gateway_sdk.session import DECLARED, ENVIRONMENT
from tests.support.documents import DOCUMENTS, ROOT, every

README = (ROOT / "README.md").read_text()
# They have a page each, or their names have.
MODULES = {
    f"gateway_sdk.{name}" for name in ("__version__", "auth", "bulk", "models", "operations")
}
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_readme_lists_every_operation(operation: Any) -> None:
    again = {
        Repeatability.READ: "yes: it reads",
        Repeatability.IDEMPOTENT: "yes: it is idempotent",
        Repeatability.ONCE: "never",
    }[operation.repeatability]

    assert re.search(rf"^\| `\w+\.{operation.name}\(.*\| {again} \|$", README, re.MULTILINE)


def test_the_files_that_developers_are_sent_to_exist() -> None:
    """A file is named by its path in the package, in `src`, or in the project."""
    places = (ROOT, ROOT / "src", ROOT / "src" / "gateway_sdk")
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text())

    missing = [name for name in named if not any((place / name).is_file() for place in places)]
    assert named
    assert missing == []


def test_the_site_lists_every_variable() -> None:
    variables = re.findall(r"^\| `(GATEWAY_\w+)` \| .* \| `(\w+)` \|$", CONFIGURATION, re.MULTILINE)

    assert {name: variable for variable, name in variables} == ENVIRONMENT


def _documented() -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", CONFIGURATION, re.MULTILINE))


def test_the_table_of_defaults_is_right() -> None:
    defaults = {
        parameter.name: parameter.default
        for parameter in inspect.signature(SharedTokenSource).parameters.values()
        if parameter.default is not parameter.empty
    } | {name: default for name, (default, _) in {**RUN, **DECLARED}.items()}
    expected = {name: repr(default) for name, default in defaults.items()}
    expected["retry"] = "RetryPolicy()"
    for kind in (RetryPolicy, RetryBudget):
        expected |= {field.name: repr(field.default) for field in fields(kind)}
    expected["retry_budget"] = "RetryBudget()"
    for credential_or_seam in (
        "access_token",
        "tenant_id",
        "token_header",
        "transport",
        "http_client",
        "acquire",
    ):
        del expected[credential_or_seam]

    assert _documented() == expected


def test_the_documents_link_to_files_that_exist() -> None:
    for document in DOCUMENTS:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_commands_stand_on_one_line_each() -> None:
    """The commands that install and test can be copied as they stand; CI greps the second."""
    commands = [block.text for block in every("sh") if block.document.name == "README.md"]

    assert [command.count("\n") for command in commands] == [1, 1]
    assert len(re.findall(r"^python3 -m venv .*nox$", README, re.MULTILINE)) == 1


def test_the_start_page_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    start = (ROOT / "docs" / "index.md").read_text()

    table = start.partition("| extra | adds |")[2].partition("\n\n")[0]

    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(project["optional-dependencies"])


def test_the_names_on_the_wire_follow_the_rule_of_the_page() -> None:
    page = (ROOT / "docs" / "models.md").read_text()
    kinds = [getattr(models, name) for name in vars(models)["__all__"]]

    for name, field in (field for kind in kinds for field in kind.model_fields.items()):
        wire_name = field.serialization_alias
        assert wire_name == to_camel(name) or f"`{wire_name}`" in page, name


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    """The pages name what is shown; the site's builder reads the docstrings."""
    pages = [page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)}
    public = {
        f"{module.__name__}.{name}"
        for module in (auth, bulk, cluster, models, otel, sandbox)
        for name in module.__all__
    }
    public |= {f"gateway_sdk.{name}" for name in vars(gateway_sdk)["__all__"]}
    named = [_named(name) for name in shown]
    for module in filter(inspect.ismodule, named):  # a page shows all classes of such a module
        named += [it for it in vars(module).values() if _is_defined_in(it, module)]
    objects = {id(it) for it in named}

    assert {name for name in public if id(_named(name)) not in objects} == MODULES


def _is_defined_in(value: object, module: ModuleType) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__


def _named(name: str) -> Any:
    """Return what a dotted name stands for: a module, or something in one."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(import_module(module), rest)
    except ModuleNotFoundError:  # a member of a class
        return getattr(_named(module), rest)
    except AttributeError:  # a module that nothing has imported before
        return import_module(name)


def test_the_table_of_operations_is_that_of_the_interface() -> None:
    page = (ROOT / "docs" / "reference" / "operations.md").read_text()

    for operation in OPERATIONS:
        words = [operation.repeatability.name.lower(), operation.tenant_id.value]
        words += [operation.token_header.value, operation.content.value]
        row = f"| `{operation.name.upper()}` | {operation.method} | `{operation.path}` | "
        assert row + " | ".join(words) + " |\n" in page


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """A new page gets a place there and in the lists for language models."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    sections = site["plugins"]["llmstxt"]["sections"].values()
    listed = {page for patterns in sections for page in pages if _matches(page, patterns)}

    assert set(re.findall(r"[\w/-]+\.md", str(site["nav"]))) == pages
    assert listed == pages - {"index.md"}


def _matches(page: str, patterns: list[str]) -> bool:
    return any(fnmatch(page, pattern) for pattern in patterns)


def test_the_site_shows_the_version() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]

    assert site["site_name"] == f"gateway_sdk {gateway_sdk.__version__}"


def test_the_sessions_that_documents_and_workflows_name_exist() -> None:
    sessions = set(
        re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    )
    named: set[str] = set()
    for file in (*DOCUMENTS, ROOT / "CONTRIBUTING.md", *(ROOT / ".github/workflows").glob("*.yml")):
        for words in re.findall(r"nox -s ([a-z_0-9 ]+)", file.read_text()):
            named.update(words.split(" and ")[0].split())

    assert named
    assert named <= sessions


def test_contributing_names_folders_that_exist() -> None:
    """Its table leads to code and tests, and it installs the extras that `nox` installs."""
    noxfile = (ROOT / "noxfile.py").read_text()
    text = (ROOT / "CONTRIBUTING.md").read_text()

    (extras,) = re.findall(r'^EVERYTHING = "(.*)"$', noxfile, re.MULTILINE)
    assert f"'{extras}'" in text
    for folder in re.findall(r"`(tests/[\w./]+)`", text):
        assert (ROOT / folder).exists(), folder
    for code in re.findall(r"^\| `([\w.]+)`(?:, `([\w.]+)`)?: ", text, re.MULTILINE):
        assert (ROOT / "src" / "gateway_sdk" / code[0]).exists(), code
