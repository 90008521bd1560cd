//! Rights and limits of this process.

use super::{Finding, Level, Remedy, Wanted};
use crate::Machine;
use rustix::process::{Resource, getrlimit};

/// Capabilities by their bits (capabilities(7)).
const NET_ADMIN: (u32, &str) = (12, "CAP_NET_ADMIN");
const NET_RAW: (u32, &str) = (13, "CAP_NET_RAW");
const IPC_LOCK: (u32, &str) = (14, "CAP_IPC_LOCK");
const SYS_ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");
const BPF: (u32, &str) = (39, "CAP_BPF");

/// Number of open descriptors of a router with many ports and workers.
const DESCRIPTORS_NEEDED: u64 = 1024;

impl Machine {
    pub(super) fn rights(&self, wanted: &Wanted, found: &mut Vec<Finding>) {
        let status = self.files.read("proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let rights = line
            .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
            .unwrap_or(0);
        let has = |right: (u32, &str)| rights & 1 << right.0 != 0;
        let mut lacks = Vec::new();
        let linux = !wanted.interfaces.is_empty() || !wanted.xdp.is_empty();
        if (linux || wanted.taps) && !has(NET_ADMIN) {
            lacks.push(NET_ADMIN.1);
        }
        if linux && !has(NET_RAW) {
            lacks.push(NET_RAW.1);
        }
        if !wanted.xdp.is_empty() && !has(BPF) && !has(SYS_ADMIN) {
            lacks.push(BPF.1);
        }
        if !lacks.is_empty() {
            let what = format!("this user lacks {}", lacks.join(", "));
            let why =
                "they are needed to open these ports: run as root, or give them to the program";
            let all: Vec<String> = lacks.iter().map(|right| right.to_lowercase()).collect();
            let mend = Remedy::by_hand(format!("setcap {}+ep $(command -v ashlar)", all.join(",")));
            found.push(Finding::new(Level::Error, "rights", what, why).with_remedy(mend));
        }
        if wanted.cards.is_empty() && wanted.xdp.is_empty() || has(IPC_LOCK) {
            return;
        }
        // vfio counts memory that a card may access as locked.
        let need = wanted.memory.max(64 << 20) as u64;
        if let Some(limit) = getrlimit(Resource::Memlock)
            .current
            .filter(|limit| *limit < need)
        {
            let what = format!(
                "this user may lock {} MiB of memory, and needs {}",
                limit >> 20,
                need >> 20
            );
            let why = "cards and AF_XDP need locked memory; DPDK says \"Cannot allocate memory\" where it may not be";
            let mend =
                Remedy::by_hand("ulimit -l unlimited    # with systemd: LimitMEMLOCK=infinity");
            found.push(Finding::new(Level::Error, "limits", what, why).with_remedy(mend));
        }
    }

    pub(super) fn descriptors(&self, found: &mut Vec<Finding>) {
        let limit = getrlimit(Resource::Nofile).current;
        if let Some(limit) = limit.filter(|limit| *limit < DESCRIPTORS_NEEDED) {
            let what = format!("this process may have {limit} files open");
            let why = "every queue of a port, and every connection of a tool, takes some";
            let mend = Remedy::by_hand("ulimit -n 65536    # with systemd: LimitNOFILE=65536");
            found.push(Finding::new(Level::Warning, "limits", what, why).with_remedy(mend));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[test]
    fn rights_that_ports_need_are_named() {
        let fake = Fake::new();
        fake.write("proc/self/status", "Name:\tx\nCapEff:\t0000000000001000\n");
        let lacks = |wanted: Wanted| {
            let mut found = Vec::new();
            fake.machine().rights(&wanted, &mut found);
            found
                .into_iter()
                .find(|f| f.about == "rights")
                .map(|f| f.what)
        };
        let one = || vec!["eth0".to_owned()];
        let interfaces = Wanted {
            interfaces: one(),
            ..Wanted::default()
        };
        assert_eq!(
            lacks(interfaces).as_deref(),
            Some("this user lacks CAP_NET_RAW")
        );
        let xdp = Wanted {
            xdp: one(),
            ..Wanted::default()
        };
        assert_eq!(
            lacks(xdp).as_deref(),
            Some("this user lacks CAP_NET_RAW, CAP_BPF")
        );
        assert_eq!(
            lacks(Wanted {
                taps: true,
                ..Wanted::default()
            }),
            None
        );
    }

    #[test]
    fn rights_of_open_ports_are_not_checked() {
        let fake = Fake::new();
        fake.write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
        let lacks_rights = |opened| {
            let wanted = Wanted {
                taps: true,
                opened,
                ..Wanted::default()
            };
            let found = fake.machine().findings(&wanted);
            found.iter().any(|finding| finding.about == "rights")
        };
        assert!(lacks_rights(false));
        assert!(!lacks_rights(true));
    }
}
