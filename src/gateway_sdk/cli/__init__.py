"""The command `gateway`, which needs the extra [cli]."""

import sys

from gateway_sdk.cli import process


def main() -> None:
    """Run the command line and end the process with its exit status."""
    process.tolerate_any_stream()
    with process.Stop.told(), process.Stop.ending():
        _run()


def _run() -> None:
    try:
        # Imported here, because typer and rich come with an extra.
        from gateway_sdk.cli.app import app  # noqa: PLC0415

        with process.whole_output():
            app(prog_name="gateway")
    except process.CommandError as error:
        process.say(f"gateway: {error}")
        sys.exit(error.status)
    except ModuleNotFoundError as error:
        if (extra := process.EXTRA_OF.get(error.name or "")) is None:
            raise
        process.say(f"gateway: this needs the extra [{extra}]: pip install 'gateway-sdk[{extra}]'")
        sys.exit(process.Status.MISUSED)
