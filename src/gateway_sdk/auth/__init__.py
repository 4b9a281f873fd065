"""Where access tokens come from: a string, a function, a login, a store that many share."""

from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.source import AccessTokenGiven, TokenSource
from gateway_sdk.auth.token import AccessToken, Token

__all__ = [
    "AccessToken",
    "AccessTokenGiven",
    "ImplicitFlow",
    "LoginAttempt",
    "Token",
    "TokenSource",
]
