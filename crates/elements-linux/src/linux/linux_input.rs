//! Passes the frames that an interface of the kernel would receive; put it first after the port.
//!
//! ```click
//! FromDevice(null:64) -> in :: LinuxInput(eth0, null:64) -> Discard;
//! in[1] -> Discard;
//! ```
//!
//! Frames to the interface's Ethernet address leave by output 0, and so do frames to addresses of interfaces upon it,
//! such as the macvlan interfaces that VRRP's daemons make. A priority tag (802.1Q with VLAN 0) is removed. Frames to
//! multicast and broadcast addresses leave by output 1: they are not forwarded, but the kernel may need them. Frames to
//! other stations are dropped (`other_host`), and so are frames that are too short (`too_short`), and all frames while
//! the interface is down (`down`). The packet type annotation is set.
//!
//! The kernel determines the state of the interface and its Ethernet address. The interface is the port's
//! control-plane interface (a TAP) in the router's namespace; both can change at any time (`ip link set`). A router
//! that follows no kernel drops all frames.
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.
//! - `DEVICE`: the interface's port, as in FromDevice; the port's link state is copied to the interface.

use crate::prelude::*;
use elements::ether::priority::take_priority_tag;
use engine::packet::anno::PacketType;
use forwarding::Interface;
use wire::ether::Words;
use wire::{Ether, EtherAddr, ether};

drops! {
    DOWN = "down",
    OTHER_HOST = "other_host",
    TOO_SHORT = "too_short",
}
const GROUPS: u8 = 1;

pub(crate) struct LinuxInput {
    interface: Arc<Interface>,
    /// Sorted additional addresses of the interface, and the number of changes at which they were read.
    others: Vec<EtherAddr>,
    others_changes: u64,
}

impl Element for LinuxInput {
    const CONTRACT: Contract = Contract::new("LinuxInput", manual!())
        .ports(Ports::new(&["in"], &["out", "groups"]))
        .needs(&[Facts::ETHER])
        .drops(DROPS)
        .carries_super_frames();

    type Config = Arc<Interface>;

    fn configure(args: &mut Args) -> Arc<Interface> {
        let interface = super::named(args);
        let device: String = args.required("DEVICE", "the interface's port");
        interface.set_device(&device);
        interface
    }

    fn new(interface: &Arc<Arc<Interface>>, _: &Init) -> LinuxInput {
        LinuxInput {
            interface: Arc::clone(interface),
            others: interface.other_addresses(),
            others_changes: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<LinuxInput>] = &[
        Handler::shared(
            "up",
            "true if the interface is up",
            |i: &Arc<Interface>, _| Ok(i.is_up().to_string()),
        ),
        Handler::shared(
            "ether",
            "its Ethernet address; empty while it is down",
            |i: &Arc<Interface>, _| Ok(i.mac().map(|mac| mac.to_string()).unwrap_or_default()),
        ),
        Handler::shared(
            "other_ethers",
            "Ethernet addresses of interfaces upon it, one a line",
            |i: &Arc<Interface>, _| {
                Ok(i.other_addresses()
                    .iter()
                    .map(|mac| format!("{mac}\n"))
                    .collect())
            },
        ),
    ];
}

impl Fuse for LinuxInput {
    /// Fast path for frames to the interface's own address.
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        // While the interface is down, `own` equals no destination: the low 16 bits of a destination are 0.
        let own = self.interface.mac().map_or(u64::MAX, ether::destination);
        #[inline(always)]
        move |packet| {
            let header = packet.data().first_chunk::<{ ether::LEN }>()?;
            let tagged = header[12..] == ether::VLAN.to_be_bytes();
            if tagged || Words::of(header).destination() != own {
                return None;
            }
            packet.anno_mut().packet_type = PacketType::Host;
            Some(Verdict::ON)
        }
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        take_priority_tag(packet, 0);
        let Ok(frame) = Ether::new_checked(packet.data()) else {
            return Verdict::drop(TOO_SHORT);
        };
        let dst = frame.dst();
        let Some(mac) = self.interface.mac() else {
            return Verdict::drop(DOWN);
        };
        let (packet_type, verdict) = match dst {
            EtherAddr::BROADCAST => (PacketType::Broadcast, Verdict::out(GROUPS)),
            _ if dst.is_group() => (PacketType::Multicast, Verdict::out(GROUPS)),
            _ if dst == mac || self.is_other(dst) => (PacketType::Host, Verdict::ON),
            _ => (PacketType::OtherHost, Verdict::drop(OTHER_HOST)),
        };
        packet.anno_mut().packet_type = packet_type;
        verdict
    }
}

impl LinuxInput {
    /// True if `mac` is an additional address of the interface.
    fn is_other(&mut self, mac: EtherAddr) -> bool {
        let changes = self.interface.others_changes();
        if changes != self.others_changes {
            // The count may be older than the addresses; the next packet then reads them again.
            self.others_changes = changes;
            self.others = self.interface.other_addresses();
        }
        self.others.binary_search(&mac).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::anno::PacketType::*;
    use forwarding::Kernel;
    use testkit::Bench;

    const US: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn frames_follow_the_kernels_state() {
        let text = "i :: LinuxInput(eth0, p0) -> us :: Collect; i[1] -> groups :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let eth0 = bench
            .router_wide::<Kernel>()
            .interface("eth0")
            .expect("room");
        assert_eq!(eth0.device().as_deref(), Some("p0"));
        let to = [
            "02:00:00:00:00:01",
            "ff:ff:ff:ff:ff:ff",
            "01:00:5e:00:00:05",
            "02:00:00:00:00:02",
        ];
        let frames = to.map(|dst| testkit::ip4().ether("02:00:00:00:00:09", dst).bytes());
        bench.push("i", &frames);
        assert_eq!(bench.drops("i", "down"), 4);
        eth0.set_state(true, US, 1500);
        bench.push("i", &frames);
        let types = |packets: Vec<testkit::Collected>| -> Vec<_> {
            packets.iter().map(|p| p.anno.packet_type).collect()
        };
        assert_eq!(types(bench.take_packets("us")), [Host]);
        assert_eq!(types(bench.take_packets("groups")), [Broadcast, Multicast]);
        assert_eq!(bench.drops("i", "other_host"), 1);
        // The operator gives it another address, then takes it down.
        eth0.set_state(true, [2, 0, 0, 0, 0, 2], 1500);
        bench.push("i", &frames);
        assert_eq!(bench.take("us"), [&frames[3][..]]);
        eth0.set_state(false, US, 1500);
        bench.push("i", &[vec![0; 13], frames[0].clone()]);
        assert_eq!(
            (bench.drops("i", "down"), bench.drops("i", "too_short")),
            (5, 1)
        );
    }

    #[test]
    fn addresses_of_interfaces_upon_it_are_its_own_as_long_as_they_are_there() {
        let text = "i :: LinuxInput(eth0, p0) -> us :: Collect; i[1] -> groups :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let eth0 = bench
            .router_wide::<Kernel>()
            .interface("eth0")
            .expect("room");
        eth0.set_state(true, US, 1500);
        let vrrp = |id: u8| wire::EtherAddr([0, 0, 0x5e, 0, 1, id]);
        let frames = [1, 2].map(|id| testkit::ip4().ether("02:00:00:00:00:09", vrrp(id)).bytes());
        for (others, taken) in [
            (vec![], 0),
            (vec![vrrp(2), vrrp(1)], 2),
            (vec![vrrp(2)], 1),
            (vec![], 0),
        ] {
            eth0.set_others(others);
            bench.push("i", &frames);
            assert!(
                bench
                    .take_packets("us")
                    .iter()
                    .all(|p| p.anno.packet_type == Host)
            );
            bench.push("i", &frames);
            assert_eq!(bench.take("us").len(), taken);
        }
        assert_eq!(bench.drops("i", "other_host"), 2 * (2 + 1 + 2));
    }

    #[test]
    fn a_priority_tag_is_removed_and_no_other_tag() {
        let text = "i :: LinuxInput(eth0, p0) -> us :: Collect; i[1] -> groups :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let eth0 = bench
            .router_wide::<Kernel>()
            .interface("eth0")
            .expect("room");
        eth0.set_state(true, US, 1500);
        let to = |mac: &str| testkit::ip4().ether("02:00:00:00:00:09", mac);
        for (mac, output) in [("02:00:00:00:00:01", "us"), ("ff:ff:ff:ff:ff:ff", "groups")] {
            let tagged = [0, 7].map(|vlan| to(mac).vlan(vlan).bytes());
            bench.push("i", &tagged);
            assert_eq!(bench.take(output), [to(mac).bytes(), tagged[1].clone()]);
        }
    }
}
