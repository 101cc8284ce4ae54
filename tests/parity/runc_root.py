"""Runs the probe under runc with the same specification that Warren's launcher follows."""

import json
import os
import shutil
import subprocess
import uuid

ID_BASE, ID_COUNT = 1_000_000, 65_536
CAPABILITIES = [
    "CAP_" + name for name in
    "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP "
    "NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE".split()
]
MASKED = [
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
# What the usual engines' profile refuses to a process with CAPABILITIES.
DENIED = (
    "acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module "
    "fsconfig fsmount fsopen fspick get_kernel_syms init_module ioperm iopl io_uring_setup "
    "io_uring_enter io_uring_register kcmp kexec_file_load kexec_load keyctl lookup_dcookie "
    "migrate_pages mount mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree "
    "perf_event_open pivot_root process_madvise quotactl quotactl_fd query_module reboot request_key "
    "setns settimeofday setdomainname sethostname swapoff swapon syslog umount2 unshare "
    "uselib userfaultfd ustat vhangup vm86 vm86old"
).split()
# clone() with any CLONE_NEW* flag; clone3 hides its flags from a filter, so it "does not exist".
CLONE_NEW = 0x7E020000


def seccomp():
    refuse = {"action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
        if os.uname().machine == "x86_64" else ["SCMP_ARCH_AARCH64"],
        "syscalls": [
            {"names": DENIED, **refuse},
            *({"names": ["clone"], **refuse,
               "args": [{"index": 0, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"}]}
              for bit in range(32) if CLONE_NEW >> bit & 1),
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ],
    }


def spec(bundle, args, no_new_privs, hostname="sandbox"):
    """runc's own default specification, with the changes named in the module's head."""
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    path = os.path.join(bundle, "config.json")
    with open(path) as file:
        wanted = json.load(file)
    process = wanted["process"]
    process.update(terminal=False, args=args, noNewPrivileges=no_new_privs)
    del process["rlimits"]
    process["capabilities"] = {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")}
    wanted["hostname"] = hostname
    wanted["root"]["readonly"] = False
    wanted["mounts"] = [mount for mount in wanted["mounts"] if mount["type"] != "cgroup"]
    linux = wanted["linux"]
    linux["namespaces"] = [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "cgroup", "user")]
    mapping = [{"containerID": 0, "hostID": ID_BASE, "size": ID_COUNT}]
    linux.update(uidMappings=mapping, gidMappings=mapping, seccomp=seccomp(),
                 maskedPaths=MASKED, readonlyPaths=READ_ONLY)
    with open(path, "w") as file:
        json.dump(wanted, file)


def shift_owners(root):
    """runc of this age cannot idmap a root: its files must belong to the mapped ids."""
    for directory, names, files in os.walk(root):
        for path in [directory, *(os.path.join(directory, name) for name in files)]:
            info = os.lstat(path)
            os.lchown(path, info.st_uid + ID_BASE, info.st_gid + ID_BASE)
            if not os.path.islink(path):
                os.chmod(path, info.st_mode & 0o7777)


def run_probe(scratch, unpack_root, no_new_privs):
    """Unpacks a root with `unpack_root(path)` and returns what the probe printed in it."""
    bundle = os.path.join(scratch, "bundle")
    os.makedirs(bundle)
    root = os.path.join(bundle, "rootfs")
    unpack_root(root)
    shift_owners(root)
    os.chmod(scratch, 0o755)
    spec(bundle, ["/probe"], no_new_privs)
    name = "parity-" + uuid.uuid4().hex[:12]
    state = os.path.join(scratch, "state")
    try:
        done = subprocess.run(["runc", "--root", state, "run", "--bundle", bundle, name],
                              capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    finally:
        subprocess.run(["runc", "--root", state, "delete", "--force", name], capture_output=True)
    shutil.rmtree(bundle)
    if done.returncode:
        raise RuntimeError(f"runc failed ({done.returncode}): {done.stderr}")
    return json.loads(done.stdout)
