//! System calls that a confined program cannot make. What a router needs is allowed, and most else, too: this list takes away
//! what changes namespaces, mounts and the kernel itself, what looks into other processes, what gets round the bounds, and
//! parts of the kernel in which mistakes are found often.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

/// They fail as without permission.
const FORBIDDEN: &[i64] = &[
    // Other processes.
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
    // Memory that no bound counts, and processors of others.
    libc::SYS_memfd_create,
    libc::SYS_shmget,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];

/// What a call's number has for programs of the x32 ABI, and the numbers that only they have.
const X32: i64 = 0x4000_0000;
const X32_OWN: std::ops::RangeInclusive<i64> = 512..=547;

/// Forbids them to this thread and all that it starts from now on. The error is a sentence.
pub(super) fn forbid() -> Result<(), String> {
    let said = |e: seccompiler::Error| format!("cannot forbid system calls: {e}");
    // A new user namespace gives root's rights inside; what clone3 is to do cannot be seen, so it seems not to be there, and C
    // libraries take clone.
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    // Where in its arguments a call has flags, and the flags that it must not have together.
    let with_flags = [
        (libc::SYS_clone, 0, libc::CLONE_NEWUSER),
        // Memory that no bound counts.
        (libc::SYS_mmap, 3, libc::MAP_SHARED | libc::MAP_ANONYMOUS),
    ];
    for (call, argument, flags) in with_flags {
        let flags = flags as u64;
        let length = SeccompCmpArgLen::Qword;
        let has = SeccompCondition::new(argument, length, SeccompCmpOp::MaskedEq(flags), flags);
        let rule = has.and_then(|has| SeccompRule::new(vec![has]));
        rules.insert(call, vec![rule.map_err(|e| said(e.into()))?]);
    }
    // The same calls have other numbers for programs of the x32 ABI, and some of them numbers of their own.
    let of_x32 = rules
        .keys()
        .chain([&libc::SYS_clone3])
        .map(|call| call | X32);
    let of_x32: Vec<i64> = of_x32.chain(X32_OWN.map(|call| call | X32)).collect();
    let absent = of_x32.into_iter().chain([libc::SYS_clone3]);
    let absent = absent.map(|call| (call, Vec::new())).collect();
    for (rules, error) in [(rules, libc::EPERM), (absent, libc::ENOSYS)] {
        let architecture = std::env::consts::ARCH.try_into();
        let architecture = architecture.map_err(|e: seccompiler::BackendError| said(e.into()))?;
        let refused = SeccompAction::Errno(error as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture);
        let program: Result<BpfProgram, _> = filter.and_then(BpfProgram::try_from);
        apply_filter(&program.map_err(|e| said(e.into()))?).map_err(said)?;
    }
    Ok(())
}
