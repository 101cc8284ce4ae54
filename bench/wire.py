"""A small HTTP/1.1 client on a kept connection: its own cost must not show in the figures."""

import json
import socket
import struct

HEAD_END = b"\r\n\r\n"
ENVD_PORT = 49983


class Connection:
    """One kept TCP connection. Not for general use: it expects well-formed replies."""

    def __init__(self, port, key):
        self.key = key
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def close(self):
        self.socket.close()

    def send(self, method, path, body=b"", headers=""):
        head = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {self.key}\r\n{headers}"
                f"Content-Length: {len(body)}\r\n\r\n")
        self.socket.sendall(head.encode() + body)

    def _more(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self.rest += piece

    def head(self):
        """Status and the lower-cased head of the next reply."""
        while (end := self.rest.find(HEAD_END)) < 0:
            self._more()
        text, self.rest = self.rest[:end].decode().lower(), self.rest[end + len(HEAD_END):]
        return int(text.split(" ", 2)[1]), text

    def body(self, head):
        """The whole body, whether its length is told or it comes in chunks."""
        if "transfer-encoding: chunked" in head:
            return b"".join(self.chunks())
        _, _, rest = head.partition("content-length:")
        length = int(rest.split("\r\n", 1)[0] or 0)
        while len(self.rest) < length:
            self._more()
        body, self.rest = self.rest[:length], self.rest[length:]
        return body

    def chunks(self):
        """Yields the chunks as they arrive."""
        while True:
            while (end := self.rest.find(b"\r\n")) < 0:
                self._more()
            length = int(self.rest[:end], 16)
            while len(self.rest) < end + 2 + length + 2:
                self._more()
            piece = self.rest[end + 2 : end + 2 + length]
            self.rest = self.rest[end + 2 + length + 2 :]
            if length == 0:
                return
            yield piece

    def request(self, method, path, body=b"", headers=""):
        self.send(method, path, body, headers)
        status, head = self.head()
        return status, self.body(head)

    def create(self, template):
        """Makes a sandbox; returns the reply's object."""
        body = json.dumps({"templateID": template, "timeout": 300}).encode()
        status, reply = self.request("POST", "/v2/sandboxes", body, "Content-Type: application/json\r\n")
        if status != 201:
            raise RuntimeError(f"create answered {status}: {reply[:300]!r}")
        return json.loads(reply)

    def first_output(self, sandbox, command):
        """Starts a command; returns the rest of its stream as soon as output has come."""
        payload = json.dumps({"process": {"cmd": command[0], "args": command[1:]}, "stdin": False}).encode()
        headers = (f"E2b-Sandbox-Id: {sandbox['sandboxID']}\r\nE2b-Sandbox-Port: {ENVD_PORT}\r\n"
                   f"X-Access-Token: {sandbox['envdAccessToken']}\r\nConnect-Protocol-Version: 1\r\n"
                   "Content-Type: application/connect+json\r\n")
        self.send("POST", "/process.Process/Start", struct.pack(">BI", 0, len(payload)) + payload, headers)
        status, head = self.head()
        if status != 200:
            raise RuntimeError(f"start answered {status}: {self.body(head)[:300]!r}")
        stream, seen = self.chunks(), b""
        for piece in stream:
            seen += piece
            if b'"stdout"' in seen:
                return stream
        raise RuntimeError(f"no output came: {seen[:300]!r}")

    def kill(self, sandbox):
        status, reply = self.request("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
        if status != 204:
            raise RuntimeError(f"delete answered {status}: {reply[:300]!r}")
