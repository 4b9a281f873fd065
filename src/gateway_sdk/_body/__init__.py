"""Bodies of requests: what the user gave, sent in pieces, with progress, again if it can be."""

from gateway_sdk._body.body import Body, OnProgress
from gateway_sdk._body.make import BodyContent, make_body
from gateway_sdk._body.multipart import Multipart

__all__ = ["Body", "BodyContent", "Multipart", "OnProgress", "make_body"]
