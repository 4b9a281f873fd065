"""Requests that the receiver refuses, each with its status; `Waiting.fill` fills them in."""

from tests.auth.visits import RIGHT, WRONG, answer, post, visit

GOOD = answer(RIGHT)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
DEEP = b"[" * 30_000
TLS_HELLO = bytes.fromhex("160301007a010000760303") + bytes(range(64))
HOST = b"Host: HOST\r\n"

NO_HTTP = {
    "garbage": (b"\x00\xff\xfe\x80\r\n\r\n", 400),
    "a TLS hello": (TLS_HELLO, 400),
    "HTTP/0.9": (b"GET /callback\r\n\r\n", 400),
    "a head of 40 KB": (visit({"X": "x" * 40 * 1024}), 431),
    "a head of 101 lines": (visit({f"X{number}": "" for number in range(97)}), 431),
    "two lengths": (post(CHUNKED, {"Transfer-Encoding": "chunked"}), 411),
    "two other lengths": (post(GOOD, {"content-length": "7"}), 400),
    "chunks": (post(CHUNKED, {"Content-Length": None, "Transfer-Encoding": "chunked"}), 411),
    "a length of 30 digits": (post(GOOD, {"Content-Length": "9" * 30}), 400),
}

ANOTHER_PLACE = {
    "no host": (visit({"Host": None}), 400),
    "two hosts": (visit({"host": "HOST"}), 400),
    "another host": (visit({"Host": "evil.test"}), 421),
    "an answer for another host": (
        post(GOOD, {"Host": "evil.test", "Origin": "http://evil.test"}),
        421,
    ),
    "absolute form": (visit(target="http://HOST/callback"), 404),
    "an icon": (visit({"Sec-Fetch-Dest": "image"}, target="/favicon.ico"), 404),
    "a path with dots": (visit(target="/x/../callback"), 404),
}

ANOTHER_PAGE = {
    "no origin": (post(GOOD, {"Origin": None}), 403),
    "a null origin": (post(GOOD, {"Origin": "null"}), 403),
    "another origin": (post(GOOD, {"Origin": "https://evil.test"}), 403),
    "an origin at another port": (post(GOOD, {"Origin": "http://127.0.0.1:1"}), 403),
    "an origin that begins as ours": (post(GOOD, {"Origin": "http://HOST.evil.test"}), 403),
    "two origins": (post(GOOD, {"origin": "http://HOST"}), 403),
    "no cookie": (post(GOOD, {"Cookie": None}), 403),
    "another cookie": (post(GOOD, {"Cookie": "login-0=x; COOKIEx; xCOOKIE"}), 403),
    "two headers with cookies": (post(GOOD, {"cookie": "a=b"}), 403),
    "from another site": (post(GOOD, {"Sec-Fetch-Site": "cross-site"}), 403),
    "into a frame": (visit({"Sec-Fetch-Dest": "iframe"}), 403),
    "by a fetch": (visit({"Sec-Fetch-Dest": "empty"}), 403),
}

NO_ANSWER = {
    "text/plain": (post(GOOD, {"Content-Type": "text/plain"}), 415),
    "no JSON": (post(b"{fragment}"), 400),
    "no UTF-8": (post(b'{"fragment": "\xff", "query": ""}'), 400),
    "a list": (post(b'["state=ours", ""]'), 400),
    "nested deeply": (post(DEEP), 400),
    "one key more": (post(b'{"fragment": "state=ours", "query": "", "more": ""}'), 400),
    "a lone surrogate": (post(b'{"fragment": "\\ud800", "query": ""}'), 400),
    "a wrong state": (post(answer(WRONG)), 400),
    "a body of 257 KB": (post(GOOD + b" " * 257 * 1024), 413),
}

# Refused before the body is read, which is never sent.
HEADS = {
    f"a head with {name}: {text}": (post(b"", {"Content-Length": "500", name: text}), status)
    for name, text, status in (
        ("Origin", "https://evil.test", 403),
        ("Content-Type", "text/plain", 415),
        ("Cookie", "a=b", 403),
        ("Content-Length", "262145", 413),
    )
}

METHODS = {
    f"the method {method}": (visit({"Origin": "http://evil.test"}, method=method), 405)
    for method in ("PUT", "HEAD", "OPTIONS", "DELETE", "TRACE", "get")
}

# Previews and other requests that do not open the start address.
STARTS = {
    "HEAD of the start": (visit(method="HEAD", target="START"), 405),
    "POST to the start": (visit(method="POST", target="START"), 405),
    "the start as an image": (visit({"Sec-Fetch-Dest": "image"}, target="START"), 403),
    "a prerendered start": (visit({"Sec-Purpose": "prefetch;prerender"}, target="START"), 503),
    "a prefetched start": (visit({"Purpose": "prefetch"}, target="START"), 503),
    "the start at another host": (visit({"Host": "evil.test"}, target="START"), 421),
}

TURNED_AWAY = {
    **NO_HTTP,
    **ANOTHER_PLACE,
    **ANOTHER_PAGE,
    **NO_ANSWER,
    **HEADS,
    **METHODS,
    **STARTS,
}
