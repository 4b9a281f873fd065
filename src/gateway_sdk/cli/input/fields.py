"""Checking what people give against the models, before there is a session."""

from typing import Any, TypeVar

from pydantic import ValidationError

from gateway_sdk._http.request import describe
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.input.files import name_of
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.models._base import Model

M = TypeVar("M", bound=Model)


def check_fields(model: type[M], value: Any, word: str) -> M:
    """Make a model of JSON.

    Args:
        model: Which.
        value: The JSON.
        word: The file that it comes from.

    Raises:
        CommandError: it does not fit; the message names fields as they are on the wire, and
            shows no value.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = printable(describe(error))
    raise CommandError(f"{name_of(word)}: {problem}\nNothing was sent.", MISUSED)
