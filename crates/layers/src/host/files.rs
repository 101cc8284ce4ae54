//! What the template `host` has besides `/usr`: a table of small files, none of them the machine's own.

use super::tarball::Tarball;

/// Uid and gid of the user `user`.
const USER: u64 = 1000;
/// Gid of the group `shadow`.
const SHADOW: u64 = 42;

const PROFILE: &str = "\
if [ \"$(id -u)\" -eq 0 ]; then
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
else
  PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin
fi
export PATH
if [ -n \"${BASH-}\" ] && [ \"$BASH\" != /bin/sh ]; then
  [ -f /etc/bash.bashrc ] && . /etc/bash.bashrc
fi
for script in /etc/profile.d/*.sh; do
  [ -r \"$script\" ] && . \"$script\"
done
unset script
";

const BASHRC: &str = "\
[ -z \"${PS1-}\" ] && return
shopt -s checkwinsize
PS1='\\u@\\h:\\w\\$ '
";

const HOME_BASHRC: &str = "\
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth
shopt -s histappend checkwinsize
alias ls='ls --color=auto'
";

const HOME_PROFILE: &str = "\
[ -n \"$BASH_VERSION\" ] && [ -f \"$HOME/.bashrc\" ] && . \"$HOME/.bashrc\"
[ -d \"$HOME/.local/bin\" ] && PATH=\"$HOME/.local/bin:$PATH\"
";

const LOGIN_DEFS: &str = "\
MAIL_DIR /var/mail
UID_MIN 1000
UID_MAX 60000
GID_MIN 1000
GID_MAX 60000
SUB_UID_COUNT 0
SUB_GID_COUNT 0
UMASK 022
HOME_MODE 0755
ENCRYPT_METHOD SHA512
ENV_SUPATH PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV_PATH PATH=/usr/local/bin:/usr/bin:/bin
";

/// Everybody inside is trusted alike: a sandbox is the boundary, not its users.
const PAM: &str = "\
auth     sufficient pam_permit.so
account  sufficient pam_permit.so
password sufficient pam_permit.so
session  optional   pam_permit.so
";

const SUDOERS: &str = "\
Defaults env_reset
Defaults !fqdn
Defaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"
root ALL=(ALL:ALL) ALL
user ALL=(ALL:ALL) NOPASSWD: ALL
@includedir /etc/sudoers.d
";

const NSSWITCH: &str = "\
passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
";

const HOSTS: &str = "\
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
";

const SERVICES: &str = "\
ssh 22/tcp
smtp 25/tcp
domain 53/tcp
domain 53/udp
http 80/tcp
ntp 123/udp
https 443/tcp
https 443/udp
postgresql 5432/tcp
redis 6379/tcp
";

const PROTOCOLS: &str = "\
ip 0 IP
icmp 1 ICMP
tcp 6 TCP
udp 17 UDP
ipv6 41 IPv6
ipv6-icmp 58 IPv6-ICMP
";

const OPENSSL: &str = "\
[ req ]
distinguished_name = req_distinguished_name
[ req_distinguished_name ]
commonName = Common Name
";

/// The skeleton, each directory before what is in it.
pub(super) fn directories(tar: &mut Tarball) {
    for path in [
        ".", "boot", "dev", "etc", "home", "media", "mnt", "opt", "proc", "run", "srv", "sys",
    ] {
        tar.directory(path, 0o755, 0);
    }
    for path in ["usr", "var"] {
        tar.directory(path, 0o755, 0);
    }
    tar.directory("root", 0o700, 0);
    tar.directory("tmp", 0o1777, 0);
    tar.directory("run/lock", 0o1777, 0);
    for name in [
        "backups", "cache", "lib", "local", "log", "mail", "opt", "spool",
    ] {
        tar.directory(&format!("var/{name}"), 0o755, 0);
    }
    tar.directory("var/lib/misc", 0o755, 0);
    tar.directory("var/tmp", 0o1777, 0);
    tar.symlink("var/run", "/run");
    tar.symlink("var/lock", "/run/lock");
    for path in [
        "etc/alternatives",
        "etc/ld.so.conf.d",
        "etc/profile.d",
        "etc/pam.d",
        "etc/skel",
        "etc/ssl",
    ] {
        tar.directory(path, 0o755, 0);
    }
    tar.directory("etc/ssl/certs", 0o755, 0);
    tar.directory("etc/sudoers.d", 0o750, 0);
    tar.directory("home/user", 0o755, USER);
}

/// Users, groups and their homes. Nobody has a password.
pub(super) fn accounts(tar: &mut Tarball) {
    let passwd = "root:x:0:0:root:/root:/bin/bash\n\
        daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
        bin:x:2:2:bin:/bin:/usr/sbin/nologin\n\
        sys:x:3:3:sys:/dev:/usr/sbin/nologin\n\
        mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n\
        www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n\
        nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n\
        user:x:1000:1000:user:/home/user:/bin/bash\n";
    let group = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\n\
        sudo:x:27:user\nwww-data:x:33:\nshadow:x:42:\nutmp:x:43:\nstaff:x:50:\nusers:x:100:\n\
        nogroup:x:65534:\nuser:x:1000:\n";
    let names = |table: &'static str| table.lines().filter_map(|l| l.split(':').next());
    let shadow: String = names(passwd)
        .map(|n| format!("{n}:*:18262:0:99999:7:::\n"))
        .collect();
    let members = |n: &str| if n == "sudo" { "user" } else { "" };
    let gshadow: String = names(group)
        .map(|n| format!("{n}:*::{}\n", members(n)))
        .collect();
    tar.file("etc/passwd", 0o644, passwd);
    tar.file("etc/group", 0o644, group);
    tar.group("etc/shadow", 0o640, SHADOW, &shadow);
    tar.group("etc/gshadow", 0o640, SHADOW, &gshadow);
    tar.file(
        "etc/shells",
        0o644,
        "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n",
    );
    for (home, owner) in [("root", 0), ("home/user", USER), ("etc/skel", 0)] {
        tar.owned_file(&format!("{home}/.bashrc"), 0o644, owner, HOME_BASHRC);
        tar.owned_file(&format!("{home}/.profile"), 0o644, owner, HOME_PROFILE);
    }
}

/// Settings that programs look for.
pub(super) fn settings(tar: &mut Tarball) {
    for (name, content) in [
        ("bash.bashrc", BASHRC),
        ("environment", ""),
        ("fstab", ""),
        ("host.conf", "multi on\n"),
        ("hostname", "sandbox\n"),
        ("hosts", HOSTS),
        ("ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n"),
        ("ld.so.conf.d/local.conf", "/usr/local/lib\n"),
        ("login.defs", LOGIN_DEFS),
        ("machine-id", ""),
        ("nsswitch.conf", NSSWITCH),
        ("profile", PROFILE),
        ("protocols", PROTOCOLS),
        ("resolv.conf", ""),
        ("services", SERVICES),
        ("ssl/openssl.cnf", OPENSSL),
        ("timezone", "Etc/UTC\n"),
    ] {
        tar.file(&format!("etc/{name}"), 0o644, content);
    }
    tar.symlink("etc/localtime", "/usr/share/zoneinfo/Etc/UTC");
    tar.symlink("etc/mtab", "../proc/self/mounts");
}

/// What lets `user` become root inside, where sudo and su exist.
pub(super) fn permissions(tar: &mut Tarball) {
    tar.file("etc/sudoers", 0o440, SUDOERS);
    for name in [
        "login",
        "other",
        "passwd",
        "runuser",
        "runuser-l",
        "su",
        "su-l",
        "sudo",
        "sudo-i",
    ] {
        tar.file(&format!("etc/pam.d/{name}"), 0o644, PAM);
    }
}
