/* Prints as JSON what a process inside a container has and can do. Static, needs nothing of the root. */
#define _GNU_SOURCE
#include "probe.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int entries;

void json_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text < 0x20) printf("\\u%04x", *text);
        else putchar(*text);
    }
    putchar('"');
}

void json_key(const char *key) {
    if (entries++) putchar(',');
    json_string(key);
    putchar(':');
}

void json_open(const char *key) {
    json_key(key);
    putchar('{');
    entries = 0;
}

void json_close(void) {
    putchar('}');
    entries = 1;
}

void json_pair(const char *key, const char *value) {
    json_key(key);
    json_string(value);
}

const char *errno_name(int error) { return error ? strerrorname_np(error) : "ok"; }

static void file_text(const char *key, const char *path) {
    char text[4096] = "";
    int fd = open(path, O_RDONLY);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = 0;
    json_pair(key, fd < 0 ? strerrorname_np(errno) : text);
    if (fd >= 0) close(fd);
}

/* Capability sets, seccomp mode and no_new_privs of this process. */
static void status(void) {
    static const char *wanted[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
                                   "Seccomp", "Groups", "Umask", "SigIgn", "SigBlk", "Uid", "Gid"};
    char line[4096];
    FILE *file = fopen("/proc/self/status", "r");
    json_open("status");
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (!value) continue;
        *value++ = 0;
        value[strcspn(value, "\n")] = 0;
        while (*value == '\t' || *value == ' ') value++;
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (!strcmp(line, wanted[i])) json_pair(line, value);
    }
    json_close();
    if (file) fclose(file);
}

static void namespaces(void) {
    static const char *kinds[] = {"user", "pid", "mnt", "uts", "ipc", "net", "cgroup", "time"};
    json_open("namespaces");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        if (readlink(path, target, sizeof target - 1) < 0) strcpy(target, "none");
        json_pair(kinds[i], target);
    }
    json_close();
}

/* What reading and opening for write give; nothing is written. */
static const char *access_of(const char *path) {
    static char answer[128];
    char byte;
    struct stat info;
    int can_read, can_write, fd;
    ssize_t got = -1;
    if (lstat(path, &info)) return strerrorname_np(errno);
    fd = open(path, O_RDONLY | O_NONBLOCK);
    can_read = fd < 0 ? errno : 0;
    if (fd >= 0 && S_ISREG(info.st_mode)) got = read(fd, &byte, 1);
    if (fd >= 0 && S_ISDIR(info.st_mode)) {
        DIR *listed = fdopendir(fd);
        got = -2;
        while (listed && readdir(listed)) got++;
        closedir(listed);
        fd = -1;
    }
    if (fd >= 0) close(fd);
    fd = S_ISDIR(info.st_mode) ? -1 : open(path, O_WRONLY | O_NONBLOCK);
    can_write = fd < 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (S_ISDIR(info.st_mode)) can_write = access(path, W_OK) ? errno : 0;
    snprintf(answer, sizeof answer, "read=%s%s write=%s", errno_name(can_read),
             can_read ? "" : got > 0 ? "+content" : "+empty", errno_name(can_write));
    return answer;
}

static void paths(void) {
    static const char *list[] = {
        "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
        "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
        "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc/interrupts",
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
        "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc", "/proc/kmsg", "/proc/kallsyms",
        "/proc/1/mem", "/sys/kernel/debug", "/sys/kernel/uevent_helper", "/sys/fs/cgroup",
        "/sys/kernel/security", "/sys/power/state", "/sys/devices/virtual/powercap", "/dev/mem",
        "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun"};
    json_open("paths");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) json_pair(list[i], access_of(list[i]));
    json_close();
}

static void device_tree(const char *directory) {
    DIR *listed = opendir(directory);
    struct dirent *entry;
    while (listed && (entry = readdir(listed))) {
        char path[512], value[512], target[256] = "";
        struct stat info;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (lstat(path, &info)) continue;
        if (S_ISLNK(info.st_mode) && readlink(path, target, sizeof target - 1) < 0) continue;
        snprintf(value, sizeof value, "%c %o %u:%u%s%s%s%s",
                 S_ISCHR(info.st_mode) ? 'c' : S_ISBLK(info.st_mode) ? 'b' : S_ISDIR(info.st_mode) ? 'd'
                 : S_ISLNK(info.st_mode) ? 'l' : 'f',
                 info.st_mode & 07777, major(info.st_rdev), minor(info.st_rdev), *target ? " " : "", target,
                 S_ISCHR(info.st_mode) ? " " : "", S_ISCHR(info.st_mode) ? access_of(path) : "");
        json_pair(path, value);
        if (S_ISDIR(info.st_mode)) device_tree(path);
    }
    if (listed) closedir(listed);
}

/* Target, root within the filesystem, options, type, in the order of mounting. */
static void mounts(void) {
    char line[8192];
    FILE *file = fopen("/proc/self/mountinfo", "r");
    int first = 1;
    json_key("mounts");
    putchar('[');
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!first) putchar(',');
        first = 0;
        json_string(line);
    }
    putchar(']');
    if (file) fclose(file);
}

static void limits(void) {
    static const char *names[] = {"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile",
                                  "memlock", "as", "locks", "sigpending", "msgqueue", "nice", "rtprio",
                                  "rttime"};
    json_open("rlimits");
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        struct rlimit limit;
        char value[64];
        if (getrlimit(i, &limit)) continue;
        snprintf(value, sizeof value, "%lld %lld", (long long)limit.rlim_cur, (long long)limit.rlim_max);
        json_pair(names[i], value);
    }
    json_close();
}

static void process(void) {
    char value[256];
    json_open("process");
    snprintf(value, sizeof value, "%d", prctl(PR_GET_DUMPABLE));
    json_pair("dumpable", value);
    snprintf(value, sizeof value, "%x", prctl(PR_GET_SECUREBITS));
    json_pair("securebits", value);
    gethostname(value, sizeof value);
    json_pair("hostname", value);
    file_text("oom_score_adj", "/proc/self/oom_score_adj");
    file_text("cgroup", "/proc/self/cgroup");
    file_text("uid_map", "/proc/self/uid_map");
    file_text("gid_map", "/proc/self/gid_map");
    file_text("setgroups", "/proc/self/setgroups");
    file_text("attr", "/proc/self/attr/current");
    json_close();
}

static void open_descriptors(void) {
    json_open("descriptors");
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], target[256] = "", name[16];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) < 0) continue;
        snprintf(name, sizeof name, "%d", fd);
        json_pair(name, target);
    }
    json_close();
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    putchar('{');
    status();
    namespaces();
    process();
    limits();
    open_descriptors();
    paths();
    json_open("devices");
    device_tree("/dev");
    json_close();
    mounts();
    fflush(stdout);
    syscalls();
    puts("}");
    return 0;
}
