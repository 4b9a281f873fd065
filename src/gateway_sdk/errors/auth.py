"""The errors of access tokens and of logins."""

from gateway_sdk.errors.reply import UnauthorizedError
from gateway_sdk.errors.root import GatewayError


class AuthError(GatewayError):
    """There is no access token to send."""


class LoginRequiredError(AuthError):
    """There is no usable token, and this process cannot ask a user to log in."""


class LoginError(AuthError):
    """A login failed."""


class AuthorizationDeniedError(LoginError):
    """The user or the authorization server refused the login (RFC 6749, 4.2.2.1).

    Texts and pickles show the code only if it is a standard one. The attributes hold the server's
    texts in printable characters, on one line and shortened.

    Attributes:
        code: The error code, such as "access_denied".
        description: The server's text; "" if it has none.
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
    """A response belongs to another login: its state is missing, repeated, wrong or used."""


class MalformedResponseError(LoginError):
    """The response of this login violates RFC 6749, 4.2.2."""


class LoginTimeoutError(LoginError, TimeoutError):
    """The login was not finished in time.

    Attributes:
        refused: How many responses of other logins were received.
    """

    refused: int = 0

    def __init__(self, message: str, *, refused: int = 0) -> None:
        super().__init__(message)
        self.refused = refused


class ReceiverUnavailableError(LoginError):
    """The receiver cannot listen at the redirect URI on this machine."""


class TokenStoreError(AuthError):
    """The token store cannot be read or written; its record is unchanged."""


class TokenRejectedError(UnauthorizedError, AuthError):
    """401, and 401 again with a renewed access token.

    If a call did not send it, because the tokens of the last two logins were refused to others,
    its outcome is NOT_SENT and the body is empty.
    """
