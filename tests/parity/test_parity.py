"""As strict as runc: one probe, the same root, under both; what differs is listed here with its reason."""

import json
import os
import shutil
import tarfile
import tempfile

import pytest
from images import small, tree
from parity import runc_root
from raw import DataPlane

# Files that only one of the two kernel or tool versions shows are compared when both have them.
ABSENT = "ENOENT"


@pytest.fixture(scope="module")
def under_runc():
    scratch = tempfile.mkdtemp(prefix="wt-parity-")
    try:
        yield runc_root.run_probe(scratch, _unpack, no_new_privs=False)
    finally:
        shutil.rmtree(scratch)


def _unpack(root):
    """The root of the image `probe`, from the same function that writes its layer."""
    os.makedirs(root)
    with tempfile.TemporaryFile() as file:
        layer = tree.Layer(file)
        small.probe_root(layer)
        layer.close()
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            tar.extractall(root)


@pytest.fixture(scope="module")
def under_warren(api, pulled):
    made = api.create(pulled("small:probe"))
    run = DataPlane(api, made).run("/probe", user="root")
    api.kill(made)
    assert run.exit_code == 0, (run.stderr, run.reply)
    return json.loads(run.stdout)


@pytest.mark.parametrize("field", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
                                   "Umask", "SigBlk", "Uid", "Gid"])
def test_credentials_are_equal(under_runc, under_warren, field):
    assert under_warren["status"][field] == under_runc["status"][field]


def test_no_group_is_given_beyond_the_primary_one(under_runc, under_warren):
    # Warren names root's primary group among the supplementary ones, as `docker exec` does; runc by itself does not.
    assert under_runc["status"]["Groups"].split() == []
    assert set(under_warren["status"]["Groups"].split()) <= {"0"}


def test_no_signal_is_ignored(under_warren):
    # runc passes on what its caller ignored; here nothing may be.
    assert int(under_warren["status"]["SigIgn"], 16) == 0


@pytest.mark.parametrize("field", ["dumpable", "securebits", "uid_map", "gid_map", "setgroups", "attr"])
def test_process_attributes_are_equal(under_runc, under_warren, field):
    assert under_warren["process"][field] == under_runc["process"][field]


def test_the_paths_of_cgroups_do_not_show_the_host(under_warren):
    for line in under_warren["process"]["cgroup"].splitlines():
        path = line.split(":", 2)[2]
        assert "warren" not in path and "process_api" not in path, line


def test_a_process_is_killed_before_the_node_when_memory_ends(under_warren):
    assert int(under_warren["process"]["oom_score_adj"]) >= 0


def test_the_same_namespaces_are_new(under_runc, under_warren):
    ours = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in under_runc["namespaces"]}
    new = lambda probe: {kind for kind, link in probe["namespaces"].items() if link != ours[kind]}
    assert new(under_warren) == new(under_runc) >= {"user", "pid", "mnt", "uts", "ipc", "net", "cgroup"}


def test_limits_are_equal_or_lower(under_runc, under_warren):
    def value(text):
        return [float("inf") if part == "-1" else int(part) for part in text.split()]
    for name, runc in under_runc["rlimits"].items():
        for ours, theirs in zip(value(under_warren["rlimits"][name]), value(runc)):
            assert ours <= theirs, (name, under_warren["rlimits"][name], runc)


def test_no_descriptor_leaks_into_a_command(under_warren):
    inherited = {name: target for name, target in under_warren["descriptors"].items() if int(name) > 2}
    assert not inherited


def stricter(ours, theirs):
    """Whether our answer gives no more than theirs: each of read, content and write."""
    if ours == theirs or ours == ABSENT:
        return True
    if theirs == ABSENT:
        return False
    gives = lambda answer: {"read" * ("read=ok" in answer), "content" * ("+content" in answer),
                            "write" * ("write=ok" in answer)} - {""}
    return gives(ours) <= gives(theirs)


def nulls(probe):
    """Paths with the null device over them: they can be opened for write, to no effect."""
    fields = [line.split() for line in probe["mounts"]]
    return {words[4] for words in fields if words[3].endswith("/null")}


def test_masked_and_read_only_paths_give_no_more(under_runc, under_warren):
    looser = {path: (answer, under_runc["paths"][path]) for path, answer in under_warren["paths"].items()
              if path not in nulls(under_warren) and not stricter(answer, under_runc["paths"][path])}
    assert not looser


def test_paths_that_no_sandbox_may_write(under_warren):
    for path in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper",
                 "/sys/power/state", "/proc/kcore", "/dev/mem", "/dev/kmsg"]:
        assert "write=ok" not in under_warren["paths"][path] or path in nulls(under_warren), path


def devices(probe):
    """Device nodes by path; directories and links are not rights."""
    return {path: value for path, value in probe["devices"].items() if value[0] in "cb"}


def test_device_nodes_are_equal(under_runc, under_warren):
    assert devices(under_warren) == devices(under_runc)


def test_links_and_directories_in_dev_are_equal(under_runc, under_warren):
    rest = lambda probe: {path: value for path, value in probe["devices"].items() if value[0] not in "cb"}
    assert rest(under_warren) == rest(under_runc)


FLAGS = {"ro", "nosuid", "nodev", "noexec"}


def mount_flags(probe):
    """Target to (type, restricting flags), the last mount on a target."""
    found = {}
    for line in probe["mounts"]:
        left, right = line.split(" - ")
        fields = left.split()
        superblock = right.split()[2].split(",")
        flags = FLAGS & (set(fields[5].split(",")) | ({"ro"} if "ro" in superblock else set()))
        found[fields[4]] = (right.split()[0], flags)
    return found


def other_type(target, probe):
    """Whether Warren's mount may be of another type than runc's: each case is no looser."""
    is_root = target == "/"  # an overlay of layers in place of a directory
    is_device = target in devices(probe)  # bound from a tmpfs with just these nodes, not from the host's /dev
    return is_root or is_device or target in nulls(probe)


def test_every_mount_of_runc_is_there_with_its_flags(under_runc, under_warren):
    ours, theirs = mount_flags(under_warren), mount_flags(under_runc)
    for target, (kind, flags) in theirs.items():
        assert target in ours, f"{target} is not mounted"
        assert flags <= ours[target][1], (target, ours[target], flags)
        if not other_type(target, under_warren):
            assert ours[target][0] == kind, (target, ours[target], kind)


def test_no_mount_is_there_that_runc_has_not(under_runc, under_warren):
    more = mount_flags(under_warren).keys() - mount_flags(under_runc).keys()
    # More masked paths are stricter; anything else would be a way in.
    assert all(target.startswith(("/proc/", "/sys/")) for target in more), more


def test_the_mount_table_names_no_path_of_the_host(under_warren):
    # The root's own line names its directories in its options, as with every overlay-based engine.
    for line in [line for line in under_warren["mounts"] if line.split()[4] != "/"]:
        for word in ["/var/lib/", "wt-", "/run/warren"]:
            assert word not in line, line


def test_every_call_that_runc_refuses_is_refused(under_runc, under_warren):
    allowed = {name: (answer, under_runc["syscalls"][name]) for name, answer in under_warren["syscalls"].items()
               if answer == "ok" and under_runc["syscalls"][name] != "ok"}
    assert not allowed


def test_dangerous_calls_are_refused_by_the_filter_itself(under_runc, under_warren):
    """EPERM or ENOSYS from the filter, not an error of arguments that another try may avoid."""
    refused = {"EPERM", "ENOSYS"}
    weaker = {name: (answer, under_runc["syscalls"][name]) for name, answer in under_warren["syscalls"].items()
              if under_runc["syscalls"][name] in refused and answer not in refused}
    assert not weaker


def test_calls_that_programs_need_still_work(under_runc, under_warren):
    for name in ["chroot", "socket_raw", "landlock_create_ruleset", "personality_no_randomize"]:
        assert under_warren["syscalls"][name] == under_runc["syscalls"][name], name
