"""The errors of access tokens, and of the logins that bring them."""

from gateway_sdk.errors.reply import UnauthorizedError
from gateway_sdk.errors.root import GatewayError


class AuthError(GatewayError):
    """There is no access token to send."""


class LoginRequiredError(AuthError):
    """No usable token is at hand, and nobody here may be asked to log in."""


class LoginError(AuthError):
    """A login did not bring a token."""


class AuthorizationDeniedError(LoginError):
    """The authorization server answered with an error (RFC 6749, 4.2.2.1).

    Texts and pickles show the code only if it is a standard one; the server's own words stay on
    the error, printable, on one line and shortened.

    Attributes:
        code: The error code, such as "access_denied".
        description: The server's words; "" if it has none.
        uri: The address of a page about the error; "" if there is none.
    """

    code: str = ""
    description: str = ""
    uri: str = ""

    def __init__(
        self, message: str, *, code: str = "", description: str = "", uri: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.description = description
        self.uri = uri


class StateMismatchError(LoginError):
    """An answer does not belong to this login: its state is missing, doubled, wrong or used."""


class MalformedResponseError(LoginError):
    """An answer belongs to this login and is not what RFC 6749, 4.2.2, asks of it."""


class LoginTimeoutError(LoginError, TimeoutError):
    """Nobody finished the login in time.

    Attributes:
        refused: Answers that came and did not belong to this login.
    """

    refused: int = 0

    def __init__(self, message: str, *, refused: int = 0) -> None:
        super().__init__(message)
        self.refused = refused


class ReceiverUnavailableError(LoginError):
    """The address that the answer goes to cannot be had on this machine."""


class TokenStoreError(AuthError):
    """The store of tokens cannot be read or written; what it held, it still holds."""


class TokenRejectedError(UnauthorizedError, AuthError):
    """401, and 401 again with a renewed access token."""
