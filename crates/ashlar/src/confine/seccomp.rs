//! Seccomp filter of a confined program: the forbidden system calls. All other calls are allowed, including those that
//! a router needs. Forbidden are calls that change namespaces, mounts or the kernel itself, inspect other processes, or
//! circumvent the limits, and parts of the kernel with frequent vulnerabilities.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

/// Calls that fail for lack of permission (EPERM).
const FORBIDDEN: &[i64] = &[
    // Calls that inspect other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    // Namespaces, mounts and roots.
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The kernel and the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_quotactl,
    libc::SYS_fanotify_init,
    // Memory that no limit covers, and priority over others.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    libc::SYS_io_setup,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];

/// Calls that succeed without an effect. DPDK pins each of its threads and does not start if it cannot; the processors
/// of the program are those of its confinement.
const WITHOUT_EFFECT: &[i64] = &[libc::SYS_sched_setaffinity];

/// Socket families that a router needs. All others, such as AF_VSOCK and AF_ALG, are closed, because each exposes
/// more kernel code.
const FAMILIES: [i32; 5] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
    libc::AF_PACKET,
];
/// Netlink protocols that a router needs: routes, IPsec, and socket diagnostics.
const NETLINKS: [i32; 3] = [
    libc::NETLINK_ROUTE,
    libc::NETLINK_XFRM,
    libc::NETLINK_SOCK_DIAG,
];

/// Flag in a system call number for the x32 ABI, and the numbers that only this ABI has.
const X32: i64 = 0x4000_0000;
const X32_OWN: std::ops::RangeInclusive<i64> = 512..=547;

/// A condition on an argument of 32 bits; the kernel reads only these.
fn word(argument: u8, operator: SeccompCmpOp, value: i32) -> Condition {
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        operator,
        value as u32 as u64,
    )
}

/// A condition for an argument of 64 bits.
fn flags(argument: u8, flags: i32) -> Condition {
    let flags = flags as u64;
    let has = SeccompCmpOp::MaskedEq(flags);
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, has, flags)
}

type Condition = Result<SeccompCondition, BackendError>;

/// Calls that are forbidden with certain arguments: a rule matches if all of its conditions hold.
fn with_arguments() -> Vec<(i64, Vec<Condition>)> {
    use SeccompCmpOp::{Eq, Ne};
    let none_of = |argument, all: &[i32]| -> Vec<Condition> {
        all.iter().map(|&one| word(argument, Ne, one)).collect()
    };
    let mut netlink = none_of(2, &NETLINKS);
    netlink.push(word(0, Eq, libc::AF_NETLINK));
    vec![
        // A new user namespace gives root's rights inside.
        (libc::SYS_clone, vec![flags(0, libc::CLONE_NEWUSER)]),
        (libc::SYS_socket, none_of(0, &FAMILIES)),
        (libc::SYS_socket, netlink),
        // Memory that no limit covers: shared mappings, and rings of packet sockets.
        (
            libc::SYS_mmap,
            vec![flags(3, libc::MAP_SHARED | libc::MAP_ANONYMOUS)],
        ),
        (
            libc::SYS_setsockopt,
            vec![
                word(1, Eq, libc::SOL_PACKET),
                word(2, Eq, libc::PACKET_RX_RING),
            ],
        ),
        (
            libc::SYS_setsockopt,
            vec![
                word(1, Eq, libc::SOL_PACKET),
                word(2, Eq, libc::PACKET_TX_RING),
            ],
        ),
        // Removal of pages from memory that is shared with the common process, which would then wait for new pages.
        (libc::SYS_fallocate, vec![word(1, Ne, 0)]),
        (libc::SYS_madvise, vec![word(2, Eq, libc::MADV_REMOVE)]),
        (libc::SYS_madvise, vec![word(2, Eq, libc::MADV_PAGEOUT)]),
    ]
}

/// Forbids system calls to this thread and all threads and programs that it starts from now on.
///
/// # Errors
/// The kernel refuses the seccomp filter; a sentence.
pub(super) fn forbid() -> Result<(), String> {
    let failed = |e: seccompiler::Error| format!("cannot forbid system calls: {e}");
    // The filter cannot inspect the arguments of clone3. So clone3 fails as unknown, and C libraries fall back to
    // clone.
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    for (call, conditions) in with_arguments() {
        let conditions: Result<Vec<_>, _> = conditions.into_iter().collect();
        let rule = conditions.and_then(SeccompRule::new);
        let rule = rule.map_err(|e| failed(e.into()))?;
        rules.entry(call).or_default().push(rule);
    }
    // Programs of the x32 ABI make the same calls with other numbers; some calls have x32 numbers of their own.
    let of_x32 = rules
        .keys()
        .chain(WITHOUT_EFFECT)
        .chain([&libc::SYS_clone3])
        .map(|call| call | X32);
    let of_x32: Vec<i64> = of_x32.chain(X32_OWN.map(|call| call | X32)).collect();
    let absent = of_x32.into_iter().chain([libc::SYS_clone3]);
    let absent = absent.map(|call| (call, Vec::new())).collect();
    let without_effect = WITHOUT_EFFECT.iter().map(|call| (*call, Vec::new()));
    let without_effect = without_effect.collect();
    // An error of 0 is success: the kernel skips the call, which returns 0.
    for (rules, error) in [
        (rules, libc::EPERM),
        (without_effect, 0),
        (absent, libc::ENOSYS),
    ] {
        let architecture = std::env::consts::ARCH.try_into();
        let architecture = architecture.map_err(|e: BackendError| failed(e.into()))?;
        let action = SeccompAction::Errno(error as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture);
        let program: Result<BpfProgram, _> = filter.and_then(BpfProgram::try_from);
        apply_filter(&program.map_err(|e| failed(e.into()))?).map_err(failed)?;
    }
    Ok(())
}
