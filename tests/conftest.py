"""The server under test, its images, and the check that nothing of them remains."""

import os

import census
import pytest
from e2b import Sandbox
from images import build
from node import Node
from raw import DataPlane
from registry import Registry

SUBNET = "10.218.0.0/16"


def pytest_sessionstart(session):
    """One clear line in place of an error per test."""
    missing = [name for name in ("WARREN_BIN", "WARREN_AGENT") if not os.path.exists(os.environ.get(name, ""))]
    if missing and not session.config.option.collectonly:
        pytest.exit(f"{' and '.join(missing)} must be paths of built binaries; run by tests/run_e2e.sh", 2)


@pytest.fixture(scope="session")
def nothing_remains():
    """Fails the run at its very end if anything that the servers made is still there."""
    before = census.take()
    yield
    found = census.left_after_settling(before)
    assert not found, f"left on this machine after the run: {found}"


@pytest.fixture(scope="session")
def node(nothing_remains):
    """The one server of the run; SDK and CLI find it by the environment."""
    server = Node(SUBNET)
    try:
        server.start()
        os.environ.update(server.environment())
        yield server
        server.stop()
    finally:
        log = server.log()
        # Kept only so that a failed run can be explained; printed by pytest as captured output.
        print(log)
        server.destroy()


@pytest.fixture(scope="session")
def api(node):
    return node.api


@pytest.fixture
def sandbox(node):
    """A fresh sandbox of the built-in template, driven by the SDK."""
    made = Sandbox.create("base", timeout=120)
    yield made
    made.kill()


@pytest.fixture
def plane(api):
    """A fresh sandbox, driven without the SDK."""
    made = api.create()
    yield DataPlane(api, made)
    api.kill(made)


@pytest.fixture(scope="session")
def images():
    """Directory of the image fixtures."""
    return build.ensure()


@pytest.fixture(scope="session")
def registry(images):
    """A real registry with the fixtures pushed by skopeo."""
    with Registry() as running:
        for tag in ["debian", "fixture"]:
            running.push(f"oci:{images}/images:{tag}", f"{tag}:v1")
        for tag in ["tiny", "tiny-zstd", "tiny-plain", "edges", "cross-link", "probe"]:
            running.push(f"oci:{images}/small:{tag}", f"small:{tag}")
        running.push(f"oci:{images}/small:tiny-indexed", "small:tiny-indexed", "--all")
        yield running


@pytest.fixture(scope="session")
def pulled(node, registry):
    """Pulls a fixture from the registry once; returns the template's name."""
    done = {}

    def pull(reference):
        if reference not in done:
            name = reference.replace(":", "-")
            result = node.cli("pull", f"{registry.address}/{reference}", "--name", name, timeout=600)
            assert result.returncode == 0, result.stderr
            done[reference] = name
        return done[reference]

    return pull
