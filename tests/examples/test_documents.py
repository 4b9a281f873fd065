"""The code in the documents runs, and their tables say what the code does."""

import ast
import inspect
import re
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import GatewaySession, RetryBudget, RetryPolicy, _config, bulk
from gateway_sdk._config import UNSET
from gateway_sdk._transport.factory import DEFAULTS
from gateway_sdk.auth import SharedTokenSource
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Repeatability

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()
ACROSS_LINES = re.MULTILINE | re.DOTALL
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()


def python_blocks() -> list[Any]:
    """Return every Python block of every document, named by where it starts."""
    return [
        pytest.param(block[1], id=f"{document.name}:{block.start()}")
        for document in DOCUMENTS
        for block in re.finditer(r"^```python\n(.*?)^```", document.read_text(), ACROSS_LINES)
    ]


@pytest.mark.parametrize("code", python_blocks())
async def test_the_code_in_the_documents_runs(
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    code: str,
) -> None:
    """Every Python block runs against the sandbox, as it stands."""
    monkeypatch.chdir(tmp_path)  # where a journal may be left
    program = compile(code, "document", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {}

    coroutine = eval(program, names)  # noqa: S307 - our own documents
    await coroutine

    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_readme_lists_every_operation(operation: Any) -> None:
    """The table names each method, its arguments and whether it is sent again."""
    again = {
        Repeatability.READ: "yes: it reads",
        Repeatability.IDEMPOTENT: "yes: it is idempotent",
        Repeatability.ONCE: "never",
    }[operation.repeatability]

    assert re.search(rf"^\| `\w+\.{operation.name}\(.*\| {again} \|$", README, re.MULTILINE)


def test_the_readme_lists_every_variable() -> None:
    """What from_env reads is what the README says that it reads."""
    listed = dict(re.findall(r"^\| `(GATEWAY_\w+)` \| `(\w+)` \|", README, re.MULTILINE))

    assert listed == {variable: name for name, variable in _config.ENVIRONMENT.items()}


def _documented() -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", CONFIGURATION, re.MULTILINE))


def test_the_table_of_defaults_is_right() -> None:
    """Every default in the table is the one in the code, and none is missing."""
    defaults = {
        parameter.name: DEFAULTS[parameter.name]
        if parameter.default is UNSET
        else parameter.default
        for kind in (bulk.run, SharedTokenSource, GatewaySession)
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is not parameter.empty
    }
    expected = {name: repr(default) for name, default in defaults.items()}
    expected["retry"] = "RetryPolicy()"
    for kind in (RetryPolicy, RetryBudget):
        expected |= {field.name: repr(field.default) for field in fields(kind)}
    expected["retry_budget"] = "RetryBudget()"
    for credential_or_seam in (
        "tenant_id",
        "token_header",
        "transport",
        "http_client",
        "acquire",
        "clock",
    ):
        del expected[credential_or_seam]

    assert _documented() == expected


def test_the_documents_link_to_files_that_exist() -> None:
    """No link of ours leads nowhere."""
    for document in DOCUMENTS:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_commands_stand_on_one_line_each() -> None:
    """The two commands of the README can be copied as they stand."""
    commands = re.findall(r"^```sh\n(.*?)^```", README, ACROSS_LINES)

    assert [textwrap.dedent(command).count("\n") for command in commands] == [1, 1]
