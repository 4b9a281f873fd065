"""Where access tokens come from."""

from gateway_sdk.auth.source import AccessToken, AccessTokenGiven, TokenSource

__all__ = ["AccessToken", "AccessTokenGiven", "TokenSource"]
