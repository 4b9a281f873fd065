"""What is sent: documents from disk, iterators and forms."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_sdk._content import body as body
else:
    from gateway_sdk._python import lazy

    __getattr__, __dir__, __all__ = lazy(__name__, {"gateway_sdk._content.body": ""})
