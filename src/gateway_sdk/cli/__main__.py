"""Run as `python -m gateway_sdk.cli`."""

from gateway_sdk.cli import main

if __name__ == "__main__":
    main()
