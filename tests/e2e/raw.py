"""HTTP without the SDK: what the tests need to see is the wire."""

import base64
import http.client
import json
import struct

ENVD_PORT = 49983
END_OF_STREAM = 2


class Reply:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Api:
    """One server; each request has a connection of its own."""

    def __init__(self, port, key):
        self.port, self.key = port, key

    def request(self, method, path, body=None, headers=None, timeout=60):
        """`body` is sent as it is if bytes, else as JSON. A header of value None is left out."""
        wanted = {"X-API-Key": self.key}
        if body is not None and not isinstance(body, bytes):
            body, wanted["Content-Type"] = json.dumps(body).encode(), "application/json"
        wanted.update(headers or {})
        wanted = {name: value for name, value in wanted.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, wanted)
            response = connection.getresponse()
            return Reply(response, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    def create(self, template="base", **more):
        """A sandbox by the newer route; returns the reply's object."""
        reply = self.post("/v2/sandboxes", {"templateID": template, "timeout": 120, **more})
        assert reply.status == 201, reply
        return reply.json

    def kill(self, sandbox):
        return self.delete(f"/sandboxes/{sandbox['sandboxID']}")


class DataPlane:
    """The ports of one sandbox through the proxy."""

    def __init__(self, api, sandbox):
        self.api = api
        self.id = sandbox["sandboxID"]
        self.token = sandbox.get("envdAccessToken")

    def headers(self, port=ENVD_PORT, user=None):
        wanted = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port), "X-API-Key": None}
        if port == ENVD_PORT and self.token:
            wanted["X-Access-Token"] = self.token
        if user:
            wanted["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        return wanted

    def request(self, method, path, body=None, port=ENVD_PORT, user=None, headers=None, timeout=60):
        return self.api.request(method, path, body, timeout=timeout,
                                headers={**self.headers(port, user), **(headers or {})})

    def unary(self, method, message, user=None):
        """A Connect call such as `filesystem.Filesystem/Stat`."""
        return self.request("POST", "/" + method, message, user=user,
                            headers={"Connect-Protocol-Version": "1"})

    def run(self, command, *arguments, user=None, timeout_ms=None, stdin=False, **config):
        """Runs one process to its end; returns `Run`."""
        message = {"process": {"cmd": command, "args": list(arguments), **config}, "stdin": stdin}
        payload = json.dumps(message).encode()
        headers = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
        if timeout_ms:
            headers["Connect-Timeout-Ms"] = str(timeout_ms)
        reply = self.request("POST", "/process.Process/Start", struct.pack(">BI", 0, len(payload)) + payload,
                             user=user, headers=headers)
        return Run(reply)


class Run:
    """The events of one process stream, joined."""

    def __init__(self, reply):
        self.reply, stdout, stderr = reply, [], []
        self.pid = self.end = self.trailer = None
        self.order = []
        for flags, message in frames(reply.body) if reply.status == 200 else []:
            if flags & END_OF_STREAM:
                self.trailer = message
                continue
            event = message["event"]
            self.order.append(next(iter(event)))
            self.pid = event.get("start", {}).get("pid", self.pid)
            data = event.get("data", {})
            stdout.append(base64.b64decode(data.get("stdout", "")))
            stderr.append(base64.b64decode(data.get("stderr", "")))
            self.end = event.get("end", self.end)
        self.stdout, self.stderr = b"".join(stdout), b"".join(stderr)

    @property
    def exit_code(self):
        """0 is omitted in proto3 JSON; None if no end was seen."""
        return None if self.end is None else self.end.get("exitCode", 0)

    @property
    def error(self):
        return (self.trailer or {}).get("error")


def frames(body):
    """The (flags, JSON) frames of a Connect stream."""
    at = 0
    while at < len(body):
        flags, length = struct.unpack_from(">BI", body, at)
        at += 5
        assert at + length <= len(body), "a frame is cut off"
        yield flags, json.loads(body[at : at + length])
        at += length
