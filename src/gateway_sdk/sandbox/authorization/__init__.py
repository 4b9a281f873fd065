"""The authorization server of the sandbox: the OAuth 2.0 implicit flow, RFC 6749, section 4.2."""
