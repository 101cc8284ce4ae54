//! The lockdown of a sandbox: capabilities, seccomp, no_new_privs, resource limits, no dumping.
//!
//! Works on the calling thread; call it while the process has only one. What it allows equals what
//! container runtimes allow by default (the OCI runtime's template and the common engine profile).

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// Capabilities that remain, in the sandbox's user namespace: the default set of container engines.
pub const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

/// System calls answered with EPERM. A short list on purpose: installing costs by length
/// (1,000 us for a 400-entry allow list, 220 us for 48 entries, measured).
const DENIED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_sysfs,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_uselib,
    libc::SYS_userfaultfd,
    libc::SYS_ustat,
    libc::SYS_vhangup,
];

/// Namespace flags that `clone` may not carry.
const CLONE_NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// What a lockdown is to do beyond the fixed part.
#[derive(Debug, Clone, Default)]
pub struct Confine {
    /// Whether setuid programs lose their effect.
    pub no_new_privs: bool,
    /// `RLIMIT_*` number, soft, hard. A limit above the present hard one is clipped to it.
    pub rlimits: Vec<(u32, u64, u64)>,
}

/// The compiled filters; compile once, off the path (0.1 ms), install per process.
#[derive(Debug)]
pub struct Seccomp {
    filters: Vec<BpfProgram>,
}

impl Seccomp {
    /// Compiles the fixed rules for this machine's architecture.
    pub fn compile() -> io::Result<Self> {
        let mut denied: BTreeMap<i64, Vec<SeccompRule>> =
            DENIED.iter().map(|nr| (*nr, Vec::new())).collect();
        denied.insert(libc::SYS_clone, clone_rules()?);
        denied.insert(libc::SYS_socket, socket_rules()?);
        // ENOSYS, not EPERM: the C library then falls back to clone, whose flags a filter can read.
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let eperm = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let enosys = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        let filters = [(denied, eperm), (clone3, enosys)]
            .into_iter()
            .map(|(rules, action)| {
                let arch = TargetArch::try_from(std::env::consts::ARCH)?;
                SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
            })
            .collect::<Result<_, seccompiler::BackendError>>()
            .map_err(io::Error::other)?;
        Ok(Self { filters })
    }

    /// Installs the filters on the calling thread, for ever and for all it starts.
    pub fn install(&self) -> io::Result<()> {
        for filter in &self.filters {
            let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
            let program = libc::sock_fprog {
                len: length,
                filter: filter.as_ptr().cast::<libc::sock_filter>().cast_mut(),
            };
            // SAFETY: `program` points to `length` instructions that live until the call returns; the
            // kernel copies them. seccompiler's sock_filter has the layout of the C struct (repr(C)).
            // seccompiler's own apply() is not used because it sets no_new_privs, which would break sudo.
            let r = unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    0,
                    &program,
                )
            };
            if r != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Address families without a namespace: `AF_VSOCK` talks to the hypervisor, `AF_ALG` is attack surface
/// that no program needs. As container engines' profiles have it.
const SOCKET_FAMILIES: &[libc::c_int] = &[libc::AF_VSOCK, libc::AF_ALG];

fn socket_rules() -> io::Result<Vec<SeccompRule>> {
    SOCKET_FAMILIES
        .iter()
        .map(|family| {
            let family = u64::from(family.cast_unsigned());
            let condition =
                SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family)?;
            SeccompRule::new(vec![condition])
        })
        .collect::<Result<_, _>>()
        .map_err(io::Error::other)
}

fn clone_rules() -> io::Result<Vec<SeccompRule>> {
    CLONE_NAMESPACES
        .iter()
        .map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            let condition = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::MaskedEq(flag),
                flag,
            )?;
            SeccompRule::new(vec![condition])
        })
        .collect::<Result<_, _>>()
        .map_err(io::Error::other)
}

/// Locks the calling thread down: rlimits, bounding set, seccomp, capabilities, no dumping.
///
/// Needs CAP_SYS_ADMIN in its user namespace (for seccomp without no_new_privs). Not reversible; on
/// error the process must end.
pub fn lock_down(seccomp: &Seccomp, confine: &Confine) -> io::Result<()> {
    for (resource, soft, hard) in &confine.rlimits {
        set_rlimit(*resource, *soft, *hard)?;
    }
    rustix::thread::clear_ambient_capability_set()?;
    for bit in 0..64 {
        let cap = CapabilitySet::from_bits_retain(1 << bit);
        if CAPABILITIES.contains(cap) {
            continue;
        }
        // EINVAL: past the last capability this kernel knows.
        match rustix::thread::remove_capability_from_bounding_set(cap) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(e) => return Err(e.into()),
        }
    }
    if confine.no_new_privs {
        rustix::thread::set_no_new_privs(true)?;
    }
    seccomp.install()?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: CAPABILITIES,
            permitted: CAPABILITIES,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    // Root inside must not read the memory or descriptors of PID 1.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn set_rlimit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let which = match resource {
        libc::RLIMIT_CORE => Resource::Core,
        libc::RLIMIT_NOFILE => Resource::Nofile,
        libc::RLIMIT_NPROC => Resource::Nproc,
        libc::RLIMIT_MEMLOCK => Resource::Memlock,
        libc::RLIMIT_STACK => Resource::Stack,
        libc::RLIMIT_FSIZE => Resource::Fsize,
        other => {
            let text = format!("resource limit {other} is not supported");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    };
    let ceiling = rustix::process::getrlimit(which)
        .maximum
        .unwrap_or(u64::MAX);
    let some = |v: u64| (v != u64::MAX).then_some(v);
    let hard = hard.min(ceiling);
    setrlimit(
        which,
        Rlimit {
            current: some(soft.min(hard)),
            maximum: some(hard),
        },
    )?;
    Ok(())
}
