"""For the reference: names the options behind `**settings`, as `inspect.signature` does."""

import inspect
import re
from importlib import import_module
from typing import Any

from griffe import Class, Extension, Function, Parameter, ParameterKind


class Signatures(Extension):
    """Replaces the last parameter of a function, where it stands for others."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Look at a function."""
        _name_options(func)

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Look at the overloads, which are attached when the class is read."""
        for func in cls.functions.values():
            for overload in func.overloads or ():
                _name_options(overload)


def _name_options(func: Function) -> None:
    last = [*func.parameters][-1:]
    if not last or "Unpack[" not in str(last[0].annotation):
        return
    found: Any = import_module(func.module.path)
    for name in func.path.removeprefix(f"{func.module.path}.").split("."):
        found = getattr(found, name)
    del func.parameters[last[0].name]
    known = {one.name for one in func.parameters}
    for one in inspect.signature(found).parameters.values():
        if one.kind is one.KEYWORD_ONLY and one.name not in known:
            is_type = one.name == "into" and "IntoType" in str(last[0].annotation)
            shown = re.sub(r"~|[\w.]+\.", "", inspect.formatannotation(one.annotation))
            kind, default = ("type[T]", None) if is_type else (shown, repr(one.default))
            func.parameters.add(
                Parameter(
                    one.name, kind=ParameterKind.keyword_only, annotation=kind, default=default
                )
            )
