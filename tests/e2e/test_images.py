"""Real images: pulled from a real registry, every attribute of every file as umoci unpacks it."""

import ast
import json
import os
import subprocess
import time

import pytest
from e2b import Sandbox
from images import build, layers
from raw import DataPlane

# The node writes files into these, which moves their time stamp and nothing else.
TOUCHED = {b".", b"etc"}
# An overlay counts the names of an inode in its own layer: a name replaced by a later layer still counts
# for the others. Every overlay-based engine shows the same.
NLINK_OF_OWN_LAYER = {b"opt/fix/links/big-too", b"opt/fix/links/big-three"}
WALK_SECONDS = 300


@pytest.fixture(scope="module")
def fixture(pulled):
    """A sandbox of the image `fixture`; its base was pulled before, so it is already there (P54)."""
    pulled("debian:v1")
    made = Sandbox.create(pulled("fixture:v1"), timeout=900)
    yield made
    made.kill()


def walk_inside(sandbox, excluded):
    """Runs walk.py in the sandbox as root, without leaving a file in its root."""
    with open(os.path.join(os.path.dirname(build.__file__), "walk.py")) as script:
        source = script.read()
    command = 'PYTHONDONTWRITEBYTECODE=1 python3 -c "$WALK" / ' + " ".join(excluded) + " > /dev/shm/walk"
    sandbox.commands.run(command, envs={"WALK": source}, user="root", cwd="/", timeout=WALK_SECONDS)
    text = sandbox.files.read("/dev/shm/walk", user="root", request_timeout=WALK_SECONDS)
    return [ast.literal_eval(line) for line in text.splitlines()]


def oracle(images, name):
    with open(f"{images}/oracle/{name}") as file:
        return {entry["path"]: entry for entry in map(ast.literal_eval, file)}


def compare(found, wanted, ignored):
    """Differences in words; `ignored(path)` names the fields that may differ there."""
    differences = [f"missing {path}" for path in wanted.keys() - found.keys()]
    differences += [f"too much {path}" for path in found.keys() - wanted.keys()]
    for path in wanted.keys() & found.keys():
        # An opaque directory carries this mark, which overlays inside a user namespace read.
        found[path]["xattrs"].pop("user.overlay.opaque", None)
        skip = ignored(path) | {"sparse"}
        fields = (wanted[path].keys() | found[path].keys()) - skip
        differences += [f"{path}: {field} is {found[path].get(field)}, wanted {wanted[path].get(field)}"
                        for field in fields if found[path].get(field) != wanted[path].get(field)]
    return differences


@pytest.mark.timeout(900)
def test_p51_p53_p54_p55_p56_every_attribute_of_every_file_is_as_umoci_unpacks_it(fixture, images):
    # A new sandbox: nothing may have run in it.
    fresh = Sandbox.create(fixture.get_info().template_id, timeout=600)
    try:
        found = {entry["path"]: entry for entry in walk_inside(fresh, build.NOT_COMPARED)}
    finally:
        fresh.kill()
    wanted = oracle(images, "fixture")
    assert len(wanted) > 20_000

    def ignored(path):
        return ({"mtime_ns"} if path in TOUCHED else set()) | ({"nlink"} if path in NLINK_OF_OWN_LAYER else set())

    differences = compare(found, wanted, ignored)
    assert not differences, (len(differences), differences[:20])


def test_p51_a_directory_made_again_in_a_later_layer_is_empty(fixture):
    assert fixture.commands.run("ls -A /opt/fix/remade/e; ls -A /opt/fix/opaque", user="root").stdout == "new\n"


def test_p53_hard_links_share_an_inode(fixture):
    listed = fixture.commands.run("stat -c %i /opt/fix/links/big-too /opt/fix/links/big-three | uniq | wc -l; "
                                  "stat -c %i /opt/fix/links/symlink /opt/fix/links/symlink-too | uniq | wc -l; "
                                  "stat -c %h /opt/fix/links/symlink").stdout
    assert listed == "1\n1\n2\n"


def test_p55_data_beyond_four_gigabytes_is_where_it_belongs(fixture):
    offset, data = layers.SPARSE_ISLANDS[2]
    read = f"dd if=/opt/fix/sizes/sparse-5g iflag=skip_bytes,count_bytes skip={offset} count={len(data)} status=none"
    assert fixture.commands.run(read).stdout == data.decode()


def test_a_sparse_file_takes_no_room_on_the_host(fixture, node):
    used = subprocess.run(["du", "-s", "--block-size=1", f"{node.data_dir}/cache"], capture_output=True, text=True, check=True)
    assert int(used.stdout.split()[0]) < 1 << 30


def test_p18_environment_user_and_directory_of_the_image_hold_in_every_command(fixture, node):
    assert fixture.commands.run("which-tool").stdout == "the image tool\n"
    assert fixture.commands.run('echo "$PATH"').stdout.strip() == build.PATH
    done = fixture.commands.run('id -un; pwd; echo "$FIXTURE|$SPACES"; echo $HOME')
    assert done.stdout == "dev\n/opt/fix\nfrom the image|a b  c\n/home/dev\n"
    by_cli = node.cli("exec", fixture.sandbox_id, "--", "sh", "-c", "which-tool; id -un; pwd; echo $PATH")
    assert by_cli.stdout == f"the image tool\ndev\n/opt/fix\n{build.PATH}\n"
    assert fixture.commands.run("echo $FIXTURE", envs={"FIXTURE": "call"}).stdout == "call\n"


def test_p19_supplementary_groups_are_those_of_the_image(fixture):
    assert fixture.commands.run("id -Gn").stdout.split() == ["dev", "extra", "wheel"]
    assert fixture.commands.run("id -Gn", user="other").stdout.split() == ["other", "wheel"]


def test_p56_setuid_bits_and_file_capabilities_work_inside(fixture):
    where = "/opt/fix/privileges"
    assert fixture.commands.run(f"{where}/setuid").stdout.startswith("uid=1000 euid=0 ")
    assert fixture.commands.run(f"{where}/setuid-dev").stdout.startswith("uid=1000 euid=1001 ")
    assert " egid=2000 " in fixture.commands.run(f"{where}/setgid").stdout
    net_raw = 1 << 13
    capable = fixture.commands.run(f"{where}/capable").stdout
    assert capable.startswith("uid=1000 euid=1000 ") and int(capable.split("caps=")[1], 16) == net_raw
    assert "cap_net_raw=ep" in fixture.commands.run(f"/sbin/getcap {where}/capable").stdout


def test_capabilities_can_be_given_inside_and_then_work(fixture):
    fixture.commands.run("cp /opt/fix/privileges/capable /tmp/c && setcap cap_kill=ep /tmp/c", user="root")
    assert int(fixture.commands.run("/tmp/c").stdout.split("caps=")[1], 16) == 1 << 5


def test_sudo_works_inside_and_is_not_root_of_the_host(fixture):
    assert fixture.commands.run("sudo id -u; sudo cat /proc/self/uid_map").stdout.split() == ["0", "0", "1000000", "65536"]


def test_p58_directories_of_lower_layers_can_be_renamed(fixture):
    fixture.commands.run("mv /usr/share/doc /usr/share/doc2 && test -d /usr/share/doc2/sudo", user="root")
    fixture.commands.run("""python3 -c "import os; os.rename('/opt/rename-me', '/opt/renamed')" """, user="root")
    assert fixture.commands.run("cat /opt/renamed/file; ls /opt").stdout == "renamed\nfix\nrenamed\ntool\n"


def test_p58_dpkg_installs_and_removes_a_package(fixture):
    make = """set -e; mkdir -p /tmp/p/DEBIAN /tmp/p/usr/share/doc/p
printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: t <t@t>\\nDescription: t\\n' > /tmp/p/DEBIAN/control
echo text > /tmp/p/usr/share/doc/p/file; dpkg-deb -b /tmp/p /tmp/p.deb; dpkg -i /tmp/p.deb; test -f /usr/share/doc/p/file
dpkg -r p; test ! -e /usr/share/doc/p/file; dpkg -i /tmp/p.deb; rm -rf /usr/lib/python3/dist-packages"""
    fixture.commands.run(make, user="root")


def test_deleted_files_stay_deleted_and_new_ones_are_writable(fixture):
    fixture.commands.run("cd /opt/fix/sizes && rm 4096 && echo new > 4097 && ! test -e 4096 && cat 4097", user="root")
    assert fixture.commands.run("ls /opt/fix/many | wc -l").stdout == f"{layers.MANY - 19}\n"


def test_layers_are_stored_and_mounted_once_for_all_images(fixture, node, pulled, images):
    before = os.listdir(f"{node.data_dir}/cache")
    for number in range(5):
        result = node.cli("pull", f"oci:{images}/images:fixture", "--name", f"again-{number}", timeout=600)
        assert result.returncode == 0, result.stderr
    made = [Sandbox.create(f"again-{number}", timeout=60) for number in range(5)]
    mounts = _layer_mounts(node)
    assert len(mounts) == len(set(mounts))
    assert sorted(os.listdir(f"{node.data_dir}/cache")) == sorted(before)
    for one in made:
        one.kill()
    for number in range(5):
        remove_template(node, f"again-{number}")


def remove_template(node, name):
    """A killed sandbox uses its template until it is gone, a moment after the reply to the kill."""
    deadline = time.monotonic() + 10
    while (result := node.cli("template", "rm", name)).returncode and time.monotonic() < deadline:
        time.sleep(0.1)
    assert result.returncode == 0, result.stderr


def _layer_mounts(node):
    with open("/proc/self/mountinfo") as file:
        return [line.split()[4] for line in file if line.split()[4].startswith(f"{node.run_dir}/layers/")]


def layers_of(node, name):
    """Digests of a template's layers, bottom to top, from the CLI's JSON."""
    shown = node.cli("template", "inspect", name, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    record = json.loads(shown.stdout)
    found = _find(record, "layers")
    assert found, record
    return [layer if isinstance(layer, str) else layer["digest"] for layer in found]


def _find(value, key):
    if isinstance(value, dict):
        if key in value:
            return value[key]
        value = list(value.values())
    if isinstance(value, list):
        return next((found for item in value if (found := _find(item, key))), None)
    return None


def test_every_source_and_compression_of_an_image_gives_the_same_layers(node, images, pulled):
    for name, source in [("from-oci", f"oci:{images}/small:tiny"), ("from-zstd", f"oci:{images}/small:tiny-zstd"),
                         ("from-plain", f"oci:{images}/small:tiny-plain"), ("from-index", f"oci:{images}/small:tiny-indexed"),
                         ("from-docker-archive", f"docker-archive:{images}/tiny.docker.tar"),
                         ("from-oci-archive", f"oci-archive:{images}/tiny.oci.tar")]:
        result = node.cli("pull", source, "--name", name)
        assert result.returncode == 0, (source, result.stderr)
    wanted = layers_of(node, "from-oci")
    assert len(wanted) == 3
    names = ["from-zstd", "from-plain", "from-index", "from-docker-archive", "from-oci-archive",
             pulled("small:tiny"), pulled("small:tiny-zstd"), pulled("small:tiny-indexed")]
    assert {name: layers_of(node, name) for name in names} == {name: wanted for name in names}


def test_p60_an_image_without_shell_users_or_its_workdir_works(api, pulled):
    made = api.create(pulled("small:tiny"))
    plane = DataPlane(api, made)
    try:
        run = plane.run("/app/whoami")
        assert run.exit_code == 0 and run.stdout.startswith(b"uid=0 "), run.reply
        sandbox = Sandbox.connect(made["sandboxID"])
        # The relative WORKDIR `a` twice is /a/a, and is made. Relative paths start at the home, as at E2B.
        assert sandbox.files.exists("/a/a")
        sandbox.files.write("relative", "text")
        assert sandbox.files.read("/relative") == "text"
        assert [entry.name for entry in sandbox.files.list("/app")] == ["data", "whoami"]
        assert plane.run("app/whoami", cwd="/").exit_code == 0
    finally:
        api.kill(made)


def test_unsaid_parents_and_the_order_of_markers(api, pulled, images):
    made = api.create(pulled("small:edges"))
    sandbox = Sandbox.connect(made["sandboxID"])
    try:
        wanted = {path: entry for path, entry in oracle(images, "edges").items() if path != b"."}
        tops = {path.split(b"/")[0].decode() for path in wanted}
        listed = [entry for top in tops for entry in sandbox.files.list(f"/{top}", depth=5, user="root")]
        listed += [entry for entry in sandbox.files.list("/", user="root") if entry.name in tops]
        entries = {entry.path.lstrip("/").encode(): entry for entry in listed}
        assert wanted.keys() <= entries.keys(), wanted.keys() - entries.keys()
        hidden = {b"merged/old", b"again/old"} & entries.keys()
        assert not hidden
        for path, entry in wanted.items():
            assert entries[path].mode & 0o7777 == entry["mode"], path
        assert entries[b"private"].permissions == "drwx------"
    finally:
        api.kill(made)


def test_p53_a_link_to_a_file_of_an_earlier_layer_is_whole_or_refused_by_name(node, api, images):
    """Never a file that is empty, missing or another one."""
    result = node.cli("pull", f"oci:{images}/small:cross-link", "--name", "cross-link")
    if result.returncode:
        assert "app/link" in result.stderr and "app/linked" in result.stderr
        return
    made = api.create("cross-link")
    plane = DataPlane(api, made)
    both = [plane.request("GET", f"/files?path=/app/{name}", user="root").body for name in ["link", "linked"]]
    api.kill(made)
    assert both == [layers.noise(3, 10_000)] * 2
