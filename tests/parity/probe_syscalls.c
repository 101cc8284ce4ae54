/* Which dangerous system calls are refused. Arguments are harmless: a call that is let through fails on them,
   with an errno of its own, or is undone by the exit of the child that makes it. */
#define _GNU_SOURCE
#include "probe.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

struct attempt {
    const char *name;
    long number, a, b, c, d, e;
};

#define NEW_NAMESPACE(flag) {"unshare_" #flag, SYS_unshare, flag, 0, 0, 0, 0}
static char page[4096];
#define P ((long)page)

static const struct attempt attempts[] = {
    {"mount", SYS_mount, (long)"none", (long)"/proc", (long)"tmpfs", 0, 0},
    {"mount_bind", SYS_mount, (long)"/proc", (long)"/sys", 0, MS_BIND, 0},
    {"mount_remount_proc", SYS_mount, 0, (long)"/proc/sys", 0, MS_REMOUNT | MS_BIND, 0},
    {"umount2", SYS_umount2, (long)"/proc/kcore", MNT_DETACH, 0, 0, 0},
    {"pivot_root", SYS_pivot_root, (long)"/proc", (long)"/proc", 0, 0, 0},
    {"chroot", SYS_chroot, (long)"/", 0, 0, 0, 0},
    {"open_tree", SYS_open_tree, AT_FDCWD, (long)"/proc", 1, 0, 0},
    {"fsopen", SYS_fsopen, (long)"tmpfs", 0, 0, 0, 0},
    {"move_mount", SYS_move_mount, -1, (long)"", -1, (long)"", 4},
    {"mount_setattr", SYS_mount_setattr, AT_FDCWD, (long)"/", 0, P, 32},
    NEW_NAMESPACE(CLONE_NEWUSER), NEW_NAMESPACE(CLONE_NEWNS), NEW_NAMESPACE(CLONE_NEWPID),
    NEW_NAMESPACE(CLONE_NEWNET), NEW_NAMESPACE(CLONE_NEWUTS), NEW_NAMESPACE(CLONE_NEWIPC),
    NEW_NAMESPACE(CLONE_NEWCGROUP),
    {"setns", SYS_setns, -1, 0, 0, 0, 0},
    {"swapon", SYS_swapon, (long)"/none", 0, 0, 0, 0},
    {"swapoff", SYS_swapoff, (long)"/none", 0, 0, 0, 0},
    {"reboot", SYS_reboot, 0, 0, 0, 0, 0},
    {"init_module", SYS_init_module, P, 1, P, 0, 0},
    {"finit_module", SYS_finit_module, -1, P, 0, 0, 0},
    {"delete_module", SYS_delete_module, (long)"none", 0, 0, 0, 0},
    {"kexec_load", SYS_kexec_load, 0, 0, 0, 0, 0},
    {"kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0, 0},
    {"open_by_handle_at", SYS_open_by_handle_at, -1, P, 0, 0, 0},
    {"bpf", SYS_bpf, 0, P, 64, 0, 0},
    {"perf_event_open", SYS_perf_event_open, P, 0, -1, -1, 0},
    {"keyctl", SYS_keyctl, 0, -3, 0, 0, 0},
    {"add_key", SYS_add_key, (long)"user", (long)"probe", P, 1, -2},
    {"request_key", SYS_request_key, (long)"user", (long)"probe", 0, 0, 0},
    {"userfaultfd", SYS_userfaultfd, 0, 0, 0, 0, 0},
    {"io_uring_setup", SYS_io_uring_setup, 1, P, 0, 0, 0},
    {"acct", SYS_acct, 0, 0, 0, 0, 0},
    {"settimeofday", SYS_settimeofday, 0, P, 0, 0, 0},
    {"clock_settime", SYS_clock_settime, 99, P, 0, 0, 0},
    {"syslog", SYS_syslog, 10, 0, 0, 0, 0},
    {"quotactl", SYS_quotactl, 0, 0, 0, 0, 0},
    {"fanotify_init", SYS_fanotify_init, 0, 0, 0, 0, 0},
    {"lookup_dcookie", 212, 0, P, 1, 0, 0},
    {"sethostname", SYS_sethostname, P, 0, 0, 0, 0},
    {"setdomainname", SYS_setdomainname, P, 0, 0, 0, 0},
    {"vhangup", SYS_vhangup, 0, 0, 0, 0, 0},
    {"personality_no_randomize", SYS_personality, 0x0040000, 0, 0, 0, 0},
    {"process_vm_readv", SYS_process_vm_readv, 1, P, 0, P, 0},
    {"nice_up", SYS_setpriority, 0, 0, -5, 0, 0},
    {"memfd_secret", 447, 0, 0, 0, 0, 0},
    {"landlock_create_ruleset", 444, 0, 0, 1, 0, 0},
    {"mknod_null", SYS_mknodat, AT_FDCWD, (long)"/tmp/probe-null", S_IFCHR | 0600, 0x103, 0},
    {"mknod_mem", SYS_mknodat, AT_FDCWD, (long)"/tmp/probe-mem", S_IFCHR | 0600, 0x101, 0},
    {"mknod_disk", SYS_mknodat, AT_FDCWD, (long)"/tmp/probe-disk", S_IFBLK | 0600, 0x800, 0},
    {"socket_packet", SYS_socket, AF_PACKET, SOCK_RAW, 0, 0, 0},
    {"socket_raw", SYS_socket, AF_INET, SOCK_RAW, 1, 0, 0},
    {"socket_vsock", SYS_socket, 40, SOCK_STREAM, 0, 0, 0},
    {"socket_alg", SYS_socket, 38, SOCK_SEQPACKET, 0, 0, 0},
    {"setuid_65536", SYS_setuid, 65536, 0, 0, 0, 0},
    {"ioctl_tiocsti", SYS_ioctl, 0, TIOCSTI, P, 0, 0},
#ifdef SYS_iopl
    {"iopl", SYS_iopl, 3, 0, 0, 0, 0},
    {"ioperm", SYS_ioperm, 0, 1, 1, 0, 0},
    /* The same calls by the numbers of the x32 ABI: a filter that knows only the usual numbers lets them pass. */
    {"x32_unshare_user", 0x40000000 + SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0},
    {"x32_keyctl", 0x40000000 + SYS_keyctl, 0, -3, 0, 0, 0},
    {"modify_ldt", SYS_modify_ldt, 0, P, 0, 0, 0},
#endif
};

/* clone() with CLONE_NEWUSER: filters that look at unshare alone are easily got around. */
static int clone_user_namespace(int with_clone3) {
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long child = with_clone3 ? syscall(SYS_clone3, &args, sizeof args)
                             : syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    int error = errno;
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return child < 0 ? error : 0;
}

static int in_child(const struct attempt *call) {
    int result[2], status, error = 0;
    if (pipe(result)) return errno;
    pid_t child = fork();
    if (!child) {
        long got = syscall(call->number, call->a, call->b, call->c, call->d, call->e);
        error = got < 0 ? errno : 0;
        if (write(result[1], &error, sizeof error) < 0) _exit(1);
        _exit(0);
    }
    close(result[1]);
    if (read(result[0], &error, sizeof error) != sizeof error) error = EFAULT;
    close(result[0]);
    waitpid(child, &status, 0);
    return error;
}

void syscalls(void) {
    json_open("syscalls");
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        json_pair(attempts[i].name, errno_name(in_child(&attempts[i])));
        fflush(stdout);
    }
    json_pair("clone_CLONE_NEWUSER", errno_name(clone_user_namespace(0)));
    json_pair("clone3_CLONE_NEWUSER", errno_name(clone_user_namespace(1)));
    unlink("/tmp/probe-null");
    unlink("/tmp/probe-mem");
    unlink("/tmp/probe-disk");
    json_close();
}
