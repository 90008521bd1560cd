//! Kernel modules that are needed when the kernel decides about IPsec and MPLS.

use super::{Finding, Level, Remedy, Wanted};
use crate::Machine;

/// NETLINK_XFRM in /proc/net/netlink.
const XFRM: &str = "6";

/// Availability of a part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModuleState {
    Loaded,
    /// A module that is not loaded.
    OnDisk,
    Missing,
}

impl Machine {
    pub(super) fn modules(&self, wanted: &Wanted, found: &mut Vec<Finding>) {
        let ipsec = ["xfrm_user", "esp4", "esp6"];
        let mpls = ["mpls_router", "mpls_iptunnel"];
        if wanted.ipsec {
            let why = "the router takes IPsec's associations and policies from the kernel, which needs this to have \
                any";
            self.parts("IPsec", &ipsec, why, found);
        }
        if wanted.mpls {
            let why =
                "the router takes labels from the kernel's routes, which needs this to have any";
            self.parts("MPLS", &mpls, why, found);
            if self.files.number("proc/sys/net/mpls/platform_labels") == Some(0) {
                let what =
                    "the kernel takes no labels in this namespace: net.mpls.platform_labels is 0";
                let why = "a route for a label is refused then; the setting belongs to the router's namespace";
                let mend = Remedy::by_hand(
                    "ip netns exec NAMESPACE sysctl -w net.mpls.platform_labels=100000",
                );
                found.push(Finding::new(Level::Warning, "MPLS", what, why).with_remedy(mend));
            }
        }
    }

    fn parts(&self, about: &str, names: &[&str], why: &str, found: &mut Vec<Finding>) {
        let of = |wanted: ModuleState| -> Vec<&str> {
            let names = names.iter().filter(|name| self.part(name) == wanted);
            names.copied().collect()
        };
        let (missing, on_disk) = (of(ModuleState::Missing), of(ModuleState::OnDisk));
        if !missing.is_empty() {
            let what = format!("the kernel has no {}", missing.join(", "));
            let mend = Remedy::by_hand(
                "install the modules of the running kernel, or a kernel that has them",
            );
            found.push(Finding::new(Level::Error, about, what, why).with_remedy(mend));
        }
        if !on_disk.is_empty() {
            let all = on_disk.join(" ");
            let what = format!("not loaded: {}", on_disk.join(", "));
            let mend = Remedy::new(format!("modprobe -a {all}"), format!("modprobe -r {all}"));
            found.push(Finding::new(Level::Warning, about, what, why).with_remedy(mend));
        }
    }

    fn part(&self, name: &str) -> ModuleState {
        let read = |path: &str| self.files.read(path).unwrap_or_default();
        let first = |text: &str, word: &str| {
            let mut words = text
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            words.any(|first| first == word)
        };
        // Socket of the kernel itself, with process number 0.
        let speaks_xfrm = || {
            read("proc/net/netlink").lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.get(1..3) == Some(&[XFRM, "0"])
            })
        };
        let release = read("proc/sys/kernel/osrelease");
        let listed = |list: &str| {
            let file = format!("/{name}.ko");
            let text = read(&format!("lib/modules/{release}/{list}"));
            text.lines().any(|line| {
                let path = line.split(':').next().unwrap_or_default();
                path.rsplit_once(&file)
                    .is_some_and(|(_, end)| end.is_empty() || end.starts_with('.'))
            })
        };
        let is_here = first(&read("proc/modules"), name)
            || self.files.exists(&format!("sys/module/{name}"))
            || name == "xfrm_user" && speaks_xfrm()
            || name == "mpls_router" && self.files.exists("proc/sys/net/mpls")
            || listed("modules.builtin");
        match (is_here, listed("modules.dep")) {
            (true, _) => ModuleState::Loaded,
            (false, true) => ModuleState::OnDisk,
            (false, false) => ModuleState::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[test]
    fn missing_kernel_features_for_ipsec_and_mpls_are_named() {
        let fake = Fake::new();
        let lacks = |wanted: &Wanted| {
            let mut found = Vec::new();
            fake.machine().modules(wanted, &mut found);
            let each = found.into_iter();
            each.map(|f| (f.level, f.what, f.mend.map(|mend| mend.command)))
                .collect::<Vec<_>>()
        };
        let nothing = Wanted::default();
        let ipsec = Wanted {
            ipsec: true,
            ..Wanted::default()
        };
        let mpls = Wanted {
            mpls: true,
            ..Wanted::default()
        };
        assert_eq!(lacks(&nothing), []);
        let all = lacks(&ipsec);
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].0, &*all[0].1),
            (Level::Error, "the kernel has no xfrm_user, esp4, esp6")
        );
        fake.write("proc/sys/kernel/osrelease", "6.1.0-9\n");
        fake.write(
            "lib/modules/6.1.0-9/modules.dep",
            "kernel/net/ipv4/esp4.ko.xz: kernel/a.ko\nkernel/net/mpls/mpls_router.ko: kernel/b/mpls_iptunnel.ko\n",
        );
        fake.write(
            "lib/modules/6.1.0-9/modules.builtin",
            "kernel/net/ipv6/esp6.ko\n",
        );
        fake.write(
            "proc/net/netlink",
            "sk               Eth Pid        Groups\n0000000000000000 6   0          00000000\n",
        );
        let all = lacks(&ipsec);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].0, &*all[0].1), (Level::Warning, "not loaded: esp4"));
        assert_eq!(all[0].2.as_deref(), Some("modprobe -a esp4"));
        let all = lacks(&mpls);
        assert_eq!(&*all[0].1, "the kernel has no mpls_iptunnel");
        assert_eq!(&*all[1].1, "not loaded: mpls_router");
        fake.write(
            "proc/modules",
            "mpls_iptunnel 16384 0 - Live 0x0\nmpls_router 32768 1 - Live 0x0\n",
        );
        fake.write("proc/sys/net/mpls/platform_labels", "0\n");
        let all = lacks(&mpls);
        assert_eq!(all.len(), 1);
        assert!(all[0].1.contains("platform_labels is 0"));
    }
}
