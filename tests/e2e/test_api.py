"""Both generations of the API on the wire, and the errors of bad input: status, code, a message that names it."""

import json

import pytest
from raw import DataPlane

MISSING = "i" + "0" * 20


def error(reply, status, *words):
    """Checks the error shape: JSON of {code, message}, the code equal to the status, each word in the message."""
    assert reply.status == status, reply
    assert reply.headers["Content-Type"].startswith("application/json"), reply
    body = reply.json
    assert body["code"] == status and isinstance(body["message"], str), reply
    for word in words:
        assert word.lower() in body["message"].lower(), (word, body["message"])


def test_p91_both_generations_create_connect_and_list(api):
    for create, connect, listing in [
        ("/sandboxes", "/sandboxes/{}/connect", "/sandboxes"),
        ("/v2/sandboxes", "/v2/sandboxes/{}/connect", "/v2/sandboxes"),
    ]:
        made = api.post(create, {"templateID": "base", "metadata": {"made": create}})
        assert made.status == 201, made
        body = made.json
        for field in ["templateID", "sandboxID", "clientID", "envdVersion", "envdAccessToken"]:
            assert isinstance(body[field], str) and body[field], (field, body)
        sandbox_id = body["sandboxID"]
        assert sandbox_id.isalnum() and sandbox_id.islower() and len(sandbox_id) == 21
        assert api.post(connect.format(sandbox_id), {"timeout": 60}).status == 200
        assert sandbox_id in [one["sandboxID"] for one in api.get(listing).json]
        detail = api.get(f"/sandboxes/{sandbox_id}").json
        assert detail["state"] == "running" and detail["metadata"] == {"made": create}
        assert {"startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "envdVersion"} <= detail.keys()
        # The legacy form with the client's id behind a dash.
        assert api.get(f"/sandboxes/{sandbox_id}-{body['clientID']}").status == 200
        assert api.post(f"/sandboxes/{sandbox_id}/timeout", {"timeout": 60}).status == 204
        deleted = api.delete(f"/sandboxes/{sandbox_id}")
        assert (deleted.status, deleted.body) == (204, b"")
        error(api.delete(f"/sandboxes/{sandbox_id}"), 404, sandbox_id)


def test_default_timeouts_differ_by_generation(api):
    from datetime import datetime
    for route, seconds in [("/sandboxes", 15), ("/v2/sandboxes", 300)]:
        made = api.post(route, {"templateID": "base"}).json
        detail = api.get(f"/sandboxes/{made['sandboxID']}").json
        read = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
        assert abs((read(detail["endAt"]) - read(detail["startedAt"])).total_seconds() - seconds) < 2
        api.kill(made)


def test_p91_unknown_routes_and_methods_are_json(api):
    error(api.get("/no/such/route"), 404, "/no/such/route")
    error(api.post("/v9/sandboxes", {}), 404, "/v9/sandboxes")
    error(api.request("PATCH", "/v2/sandboxes"), 405, "PATCH", "/v2/sandboxes")
    error(api.request("PUT", f"/sandboxes/{MISSING}"), 405, "PUT")


@pytest.mark.parametrize("key", [None, "", "e2b_", "e2b_0123456789abcdef", "wrong", "e2b_" + "f" * 10_000])
def test_a_wrong_key_is_401(api, key):
    for method, route, body in [("GET", "/v2/sandboxes", None), ("POST", "/v2/sandboxes", {"templateID": "base"}),
                                ("DELETE", f"/sandboxes/{MISSING}", None)]:
        error(api.request(method, route, body, headers={"X-API-Key": key}), 401, "key")


@pytest.mark.parametrize("timeout", [0, -1, 10**12])
def test_p83_timeouts_out_of_range_are_refused_by_name(api, timeout):
    for route in ["/sandboxes", "/v2/sandboxes"]:
        error(api.post(route, {"templateID": "base", "timeout": timeout}), 400, "timeout")
    made = api.create()
    for route in ["/sandboxes/{}/connect", "/v2/sandboxes/{}/connect"]:
        error(api.post(route.format(made["sandboxID"]), {"timeout": timeout}), 400, "timeout")
    error(api.post(f"/sandboxes/{made['sandboxID']}/timeout", {"timeout": 10**12}), 400, "timeout")
    assert api.kill(made).status == 204


BAD_CREATES = [
    (b"{not json", ["body"]),
    (b"", []),
    (b"[]", []),
    ({}, ["templateID"]),
    ({"templateID": 5}, ["templateID"]),
    ({"templateID": ""}, ["template"]),
    ({"templateID": "../../etc"}, ["../../etc"]),
    ({"templateID": "a b"}, ["a b"]),
    ({"templateID": "x" * 5000}, ["template"]),
    ({"templateID": "base", "timeout": "soon"}, ["timeout"]),
    ({"templateID": "base", "timeout": 1.5}, ["timeout"]),
    ({"templateID": "base", "metadata": {"a": 1}}, ["metadata"]),
    ({"templateID": "base", "metadata": "text"}, ["metadata"]),
    ({"templateID": "base", "envVars": {"A": None}}, ["envVars"]),
    ({"templateID": "base", "envVars": {"A=B": "c"}}, ["A=B"]),
    ({"templateID": "base", "envVars": {"A": "nul\0"}}, ["A"]),
    ({"templateID": "base", "envVars": {"": "x"}}, ["env"]),
]


@pytest.mark.parametrize("body, words", BAD_CREATES, ids=[str(body)[:50] for body, _ in BAD_CREATES])
def test_a_bad_create_is_400_and_names_what(api, body, words):
    for route in ["/sandboxes", "/v2/sandboxes"]:
        error(api.post(route, body, headers={"Content-Type": "application/json"}), 400, *words)


def test_an_unknown_template_is_404_and_named(api):
    for route in ["/sandboxes", "/v2/sandboxes"]:
        error(api.post(route, {"templateID": "no-such-template"}), 404, "no-such-template")
        error(api.post(route, {"templateID": "host:no-such-tag"}), 404, "no-such-tag")


def test_a_body_over_the_limit_is_refused(api):
    huge = {"templateID": "base", "metadata": {"a": "x" * (64 << 20)}}
    try:
        assert api.post("/v2/sandboxes", huge).status in (400, 413)
    except (BrokenPipeError, ConnectionResetError):
        # The server may close before all is sent; it must still answer others.
        pass
    assert api.get("/v2/sandboxes").status == 200


@pytest.mark.parametrize("bad", ["A-B-C", "UPPER", "..%2F..%2Fetc", "i%00", "x" * 300, "ünï"])
def test_malformed_sandbox_ids_are_400(api, bad):
    from urllib.parse import quote
    path = quote(bad, safe="%")
    error(api.get(f"/sandboxes/{path}"), 400, "sandbox")
    error(api.delete(f"/sandboxes/{path}"), 400, "sandbox")


def test_unknown_sandboxes_are_404_and_named(api):
    error(api.get(f"/sandboxes/{MISSING}"), 404, MISSING, "doesn't exist")
    error(api.post(f"/sandboxes/{MISSING}/timeout", {"timeout": 60}), 404, MISSING)
    error(api.post(f"/v2/sandboxes/{MISSING}/connect", {}), 404, MISSING)
    error(api.post(f"/sandboxes/{MISSING}/connect", {"timeout": 60}), 404, MISSING)


@pytest.mark.parametrize("query, word", [
    ("limit=0", "limit"), ("limit=-1", "limit"), ("limit=101", "limit"), ("limit=x", "limit"),
    ("nextToken=garbage!", "nextToken"), ("state=sleeping", "state"), ("order=sideways", "order"),
    ("startedAfter=yesterday", "startedAfter"),
])
def test_bad_list_queries_are_400_and_named(api, query, word):
    error(api.get(f"/v2/sandboxes?{query}"), 400, word)


@pytest.mark.parametrize("method, route", [
    ("POST", "/sandboxes/{}/pause"), ("POST", "/sandboxes/{}/fork"), ("POST", "/sandboxes/{}/snapshots"),
    ("GET", "/snapshots"), ("GET", "/volumes"), ("POST", "/v3/templates"), ("PUT", "/sandboxes/{}/network"),
])
def test_what_comes_later_answers_501(api, method, route):
    made = api.create()
    reply = api.request(method, route.format(made["sandboxID"]), {} if method != "GET" else None)
    api.kill(made)
    error(reply, 501)
    assert reply.headers.get("Should-Retry") == "false", "the newest SDK repeats a POST otherwise"


def test_bad_routing_headers_are_400(plane, api):
    for headers, word in [
        ({"E2b-Sandbox-Id": plane.id, "E2b-Sandbox-Port": None}, "port"),
        ({"E2b-Sandbox-Id": None, "E2b-Sandbox-Port": "80"}, "id"),
        ({"E2b-Sandbox-Id": plane.id, "E2b-Sandbox-Port": "http"}, "http"),
        ({"E2b-Sandbox-Id": plane.id, "E2b-Sandbox-Port": "70000"}, "70000"),
        ({"E2b-Sandbox-Id": plane.id, "E2b-Sandbox-Port": "0"}, "0"),
    ]:
        error(plane.request("GET", "/health", headers=headers), 400, word)
    for bad in ["../x", "x" * 5000, "UPPER"]:
        reply = plane.request("GET", "/health", headers={"E2b-Sandbox-Id": bad})
        assert reply.status in (400, 502) and reply.json["code"] == reply.status, reply


def test_the_data_plane_wants_its_token(plane):
    for token in [None, "", "wrong", plane.token + "x"]:
        reply = plane.request("GET", "/files?path=/etc/hostname", headers={"X-Access-Token": token})
        assert reply.status == 401, reply
        started = plane.unary("process.Process/List", {})
        assert started.status == 200
        refused = plane.request("POST", "/process.Process/List", {}, headers={"X-Access-Token": token})
        assert refused.status == 401, refused
    assert plane.request("GET", "/health", headers={"X-Access-Token": None}).status == 204


@pytest.mark.parametrize("route", ["/init", "/freeze", "/unfreeze", "/upgrade"])
def test_internal_routes_of_the_agent_are_closed(plane, route):
    assert plane.request("POST", route, {"accessToken": "stolen"}).status in (401, 404)
    assert plane.unary("process.Process/List", {}).status == 200


def test_malformed_calls_to_the_agent_are_typed(plane):
    for body in [b"{", b"[]", b'{"path": 5}']:
        reply = plane.request("POST", "/filesystem.Filesystem/Stat", body, headers={"Content-Type": "application/json"})
        assert reply.status == 400 and reply.json["code"] == "invalid_argument", reply
    unknown = plane.unary("filesystem.Filesystem/NoSuchMethod", {})
    assert unknown.status in (404, 501), unknown
    cut = plane.request("POST", "/process.Process/Start", b"\0\0\0\xff\xff{",
                        headers={"Content-Type": "application/connect+json"})
    assert cut.status in (200, 400) and b"invalid_argument" in cut.body, cut


def test_cwd_that_is_not_there_is_named(plane):
    run = plane.run("/bin/true", cwd="/no/such/directory")
    assert run.error["code"] == "invalid_argument" and "/no/such/directory" in run.error["message"]


def test_probes_metrics_and_openapi(api):
    open_call = {"headers": {"X-API-Key": None}}
    assert api.get("/livez", **open_call).status in (200, 204)
    assert api.get("/readyz", **open_call).status in (200, 204)
    metrics = api.get("/metrics", **open_call)
    assert metrics.status == 200 and b"# TYPE" in metrics.body
    described = json.loads(api.get("/openapi.json", **open_call).body)
    assert described["openapi"].startswith("3.") and "/v2/sandboxes" in described["paths"]


def test_no_sandbox_id_is_a_metric_label(api):
    made = api.create()
    assert made["sandboxID"].encode() not in api.get("/metrics").body
    api.kill(made)


def test_an_idle_connection_or_a_slow_client_blocks_nobody(api):
    import socket
    idle = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(50)]
    idle[0].sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Le")
    assert api.get("/v2/sandboxes", timeout=5).status == 200
    for link in idle:
        link.close()


def test_the_key_file_is_private(node):
    import os
    path = os.path.join(node.data_dir, "api-key")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert node.key.startswith("e2b_") and int(node.key[4:], 16)


def test_a_damaged_data_plane_id_does_not_reach_another_sandbox(plane, api):
    other = DataPlane(api, {"sandboxID": plane.id[:-1] + ("a" if plane.id[-1] != "a" else "b")})
    other.token = plane.token
    assert other.request("GET", "/files?path=/etc/hostname").status == 502
