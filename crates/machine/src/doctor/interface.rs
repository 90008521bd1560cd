//! Linux interfaces: offloads of the kernel, and settings that modify frames.

use super::{Finding, Level, Remedy, Wanted, shell_word};
use crate::{Interface, Machine};

impl Machine {
    pub(super) fn linux_interfaces(&self, wanted: &Wanted, found: &mut Vec<Finding>) {
        let all = self.interfaces();
        let plain = wanted.interfaces.iter().map(|name| (name, false));
        for (name, xdp) in plain.chain(wanted.xdp.iter().map(|name| (name, true))) {
            let Some(interface) = all.iter().find(|i| i.name == *name) else {
                found.push(self.no_such(name, &all));
                continue;
            };
            self.other_uses(interface, xdp, found);
            if xdp {
                offloads(interface, found);
            }
        }
    }

    fn no_such(&self, name: &str, all: &[Interface]) -> Finding {
        let known: Vec<&str> = all.iter().map(|i| &*i.name).collect();
        let what = format!("there is no interface {name} in this network namespace");
        let card = self.devices().into_iter().find(|d| d.is_for_programs());
        let hint = card.map_or(String::new(), |d| {
            format!(
                "; a card that is bound to {} is named by its address, such as {}",
                d.driver.unwrap_or_default(),
                d.address
            )
        });
        Finding::new(
            Level::Error,
            name,
            what,
            format!("the namespace has: {}{hint}", known.join(", ")),
        )
    }

    /// Finds other uses of the interface's frames in the kernel.
    fn other_uses(&self, interface: &Interface, xdp: bool, found: &mut Vec<Finding>) {
        let name = &*interface.name;
        let quoted = shell_word(name);
        let mut say = |level, what: String, why: &str, mend| {
            found.push(Finding::new(level, name, what, why).with_remedy(mend));
        };
        if interface.state == "down" {
            let mend = Remedy::new(
                format!("ip link set dev {quoted} up"),
                format!("ip link set dev {quoted} down"),
            );
            say(
                Level::Error,
                format!("{name} is down"),
                "nothing comes or goes",
                mend,
            );
        }
        if interface.state == "no carrier" {
            say(
                Level::Warning,
                format!("{name} has no carrier"),
                "its cable or its peer is missing",
                None,
            );
        }
        if let Some(member) = &interface.member {
            let what = format!("{name} is part of the {member}");
            let why = "the kernel takes its frames for that, so the router may see none";
            say(
                Level::Warning,
                what,
                why,
                Remedy::by_hand(format!("ip link set dev {quoted} nomaster")),
            );
        }
        for family in ["ipv4", "ipv6"] {
            let path = format!("proc/sys/net/{family}/conf/{name}/forwarding");
            if !xdp && self.files.read(&path).as_deref() == Some("1") {
                // In a sysctl key, dots and slashes are exchanged.
                let key = shell_word(&format!("net/{family}/conf/{name}/forwarding"));
                let what = format!("the kernel forwards {family} packets of {name}, too");
                let mend = Remedy::new(format!("sysctl -w {key}=0"), format!("sysctl -w {key}=1"));
                say(Level::Warning, what, "packets leave twice", mend);
            }
        }
        if interface.is_addressed() {
            let list: Vec<String> = interface
                .addresses
                .iter()
                .map(ToString::to_string)
                .collect();
            let what = format!("{name} has addresses: {}", list.join(", "));
            let (level, why) = match xdp {
                false => (
                    Level::Warning,
                    "the kernel answers packets to them, too; if the router is to own them, remove them",
                ),
                true => (
                    Level::Note,
                    "packets and requests for them go to the kernel, and none to the router; if the router is to own \
                     them, remove them",
                ),
            };
            say(
                level,
                what,
                why,
                Remedy::by_hand(format!("ip address flush dev {quoted}")),
            );
        }
    }
}

/// Finds offloads that corrupt frames received by AF_XDP.
fn offloads(interface: &Interface, found: &mut Vec<Finding>) {
    let name = &*interface.name;
    if interface.driver.as_deref() == Some("veth") {
        let what = format!(
            "{name} is a veth, whose peer may leave checksums unfinished and send packets of up to 64 KiB"
        );
        let why = "AF_XDP cannot tell unfinished checksums from finished ones, so TCP does not cross; name the \
                   interface without af_xdp:, or switch this off at the peer";
        let mend = Remedy::by_hand("ethtool -K PEER tx off tso off gso off txvlan off");
        found.push(Finding::new(Level::Warning, name, what, why).with_remedy(mend));
    }
    if interface.xdp == crate::Xdp::Generic {
        let driver = interface.driver.as_deref().unwrap_or("its driver");
        let what = format!("{driver} knows no XDP, as far as is known");
        let why = "the kernel then copies every frame before XDP, which is slower than AF_PACKET; name the interface \
                   without af_xdp:";
        found.push(Finding::new(Level::Note, name, what, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offload;
    use crate::testing::Fake;

    #[test]
    fn other_uses_of_frames_by_the_kernel_are_reported() {
        let mut fake = Fake::new();
        fake.interface("eth0", None);
        fake.told.driver = Some("veth".into());
        fake.told.addresses = vec![("eth0".into(), "192.0.2.1".parse().unwrap())];
        fake.told.offloads = vec![Offload::Gro, Offload::Lro];
        fake.write("proc/sys/net/ipv4/conf/eth0/forwarding", "1");
        let lacks = |wanted: Wanted| {
            let mut found = Vec::new();
            fake.machine().linux_interfaces(&wanted, &mut found);
            found
        };
        let plain = lacks(Wanted {
            interfaces: vec!["eth0".into(), "eth9".into()],
            ..Wanted::default()
        });
        let what: Vec<&str> = plain.iter().map(|f| &*f.what).collect();
        assert_eq!(
            what,
            [
                "the kernel forwards ipv4 packets of eth0, too",
                "eth0 has addresses: 192.0.2.1",
                "there is no interface eth9 in this network namespace",
            ]
        );
        let mend = plain[0].mend.as_ref().expect("a command");
        assert_eq!(
            mend.undo.as_deref(),
            Some("sysctl -w net/ipv4/conf/eth0/forwarding=1")
        );
        // A name that looks like an option must still be taken as a name.
        fake.interface("-h", None);
        fake.write("sys/class/net/-h/flags", "0x1002");
        let down = lacks(Wanted {
            interfaces: vec!["-h".into()],
            ..Wanted::default()
        });
        let mend = down[0].mend.as_ref().expect("a command");
        assert_eq!(mend.command, "ip link set dev -h up");
        assert_eq!(mend.undo.as_deref(), Some("ip link set dev -h down"));
        let xdp = lacks(Wanted {
            xdp: vec!["eth0".into()],
            ..Wanted::default()
        });
        let what: Vec<&str> = xdp.iter().map(|f| &*f.what).collect();
        assert_eq!(what[0], "eth0 has addresses: 192.0.2.1");
        assert_eq!(
            xdp[0].level,
            Level::Note,
            "the kernel's packets stay the kernel's"
        );
        assert!(
            what[1].contains("is a veth"),
            "what merges packets the port switches off itself"
        );
    }
}
