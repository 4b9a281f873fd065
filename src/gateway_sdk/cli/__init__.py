"""The command `gateway`, which needs the extra [cli]."""

import sys

from gateway_sdk.cli.process import (
    EXTRAS,
    CommandError,
    Status,
    say,
    tolerate_any_stream,
    whole_output,
)


def main() -> None:
    """Run the command line and end the process with its exit status."""
    tolerate_any_stream()
    try:
        # Imported here, because typer and rich come with an extra.
        from gateway_sdk.cli.app import app  # noqa: PLC0415

        with whole_output():
            app(prog_name="gateway")
    except CommandError as error:
        say(f"gateway: {error}")
        sys.exit(error.status)
    except ModuleNotFoundError as error:
        extra = next((extra for extra, names in EXTRAS.items() if error.name in names), None)
        if extra is None:
            raise
        say(f"gateway: this needs the extra [{extra}]: pip install 'gateway-sdk[{extra}]'")
        sys.exit(Status.MISUSED)
    except KeyboardInterrupt:
        sys.exit(Status.STOPPED)
