"""P91: older SDKs of the official client work too, each in an environment of its own."""

import os
import subprocess
import venv

import pytest

# The last before the second generation of routes, one of the first with it, and one of the first that can be
# told the address of the sandboxes.
VERSIONS = ["2.45.1", "2.52.1", "2.13.0"]


def interpreter(version):
    """Python of a virtual environment with that SDK; made once, outside the clone."""
    root = os.environ.get("WARREN_VENV_E2E") or os.path.expanduser("~/.cache/warren/venv-e2e")
    place = f"{root}-e2b-{version}"
    python = f"{place}/bin/python"
    if not os.path.exists(f"{place}/ready"):
        venv.create(place, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"e2b=={version}"], check=True)
        open(f"{place}/ready", "w").close()
    return python


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
def test_p91_an_older_sdk_lives_a_whole_life(node, version):
    script = os.path.join(os.path.dirname(__file__), "old_sdk.py")
    done = subprocess.run([interpreter(version), script], env={**os.environ, **node.environment()},
                          capture_output=True, text=True, timeout=120)
    assert done.stdout == "ok\n", done.stderr
