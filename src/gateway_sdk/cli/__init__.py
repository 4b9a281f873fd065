"""The command `gateway`, which needs the extra [cli]."""

import sys

from gateway_sdk.cli.process import (
    CommandError,
    Status,
    how_to_install,
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
        advice = how_to_install(error.name)
        if advice is None:
            raise
        say(f"gateway: {advice}")
        sys.exit(Status.MISUSED)
    except KeyboardInterrupt:
        sys.exit(Status.STOPPED)
