"""Bodies of requests: sent in pieces, with progress, and again where possible."""

from gateway_sdk._http.body.body import Body, OnProgress
from gateway_sdk._http.body.make import BodyContent, make_body
from gateway_sdk._http.body.multipart import Multipart

__all__ = ["Body", "BodyContent", "Multipart", "OnProgress", "make_body"]
