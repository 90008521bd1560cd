//! Linux interfaces of the namespace.

use crate::Machine;
use serde::Serialize;
use std::net::IpAddr;

/// Offload: processing of packets by Linux or the card, on reception or transmission, that matters to routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offload {
    /// Received packets of a flow are merged by the kernel.
    Gro,
    /// Received packets of a flow are merged by the card.
    Lro,
    /// Large packets are cut by the card.
    Tso,
    /// Large packets are cut by the kernel, just before the card.
    Gso,
    /// Checksums are computed by the card.
    TxChecksum,
    /// The card verifies checksums.
    RxChecksum,
    /// The card removes VLAN tags from received frames.
    RxVlan,
    /// The card inserts VLAN tags.
    TxVlan,
}

impl Offload {
    /// Name for people and for `ethtool -K`.
    pub fn name(self) -> &'static str {
        match self {
            Offload::Gro => "gro",
            Offload::Lro => "lro",
            Offload::Tso => "tso",
            Offload::Gso => "gso",
            Offload::TxChecksum => "tx",
            Offload::RxChecksum => "rx",
            Offload::RxVlan => "rxvlan",
            Offload::TxVlan => "txvlan",
        }
    }
}

/// Kind of AF_XDP's access to an interface's frames, according to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Xdp {
    /// Frames are received into the program's memory.
    ZeroCopy,
    /// The driver runs XDP programs; frames are copied.
    Native,
    /// The kernel runs XDP programs after the driver: slow.
    Generic,
}

impl Xdp {
    /// Best access that a driver supports; generic if the driver is unknown.
    pub fn of(driver: Option<&str>) -> Xdp {
        match driver {
            Some(driver) if ZERO_COPY.contains(&driver) => Xdp::ZeroCopy,
            Some(driver) if NATIVE.contains(&driver) => Xdp::Native,
            _ => Xdp::Generic,
        }
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Xdp::ZeroCopy => "zero-copy",
            Xdp::Native => "native",
            Xdp::Generic => "generic",
        }
    }
}

/// Drivers of Linux 6.12 with zero copy; older kernels may do less.
const ZERO_COPY: &[&str] = &[
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "mlx5_core",
    "nfp",
    "st_gmac",
    "tsnep",
];
const NATIVE: &[&str] = &[
    "bnxt_en",
    "dpaa2-eth",
    "dpaa_eth",
    "ena",
    "fsl_enetc",
    "funeth",
    "gve",
    "hv_netvsc",
    "ixgbevf",
    "mana",
    "mlx4_en",
    "mvneta",
    "mvpp2",
    "octeontx2-nicpf",
    "qede",
    "sfc",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
    "xen-netfront",
];

/// A Linux interface that carries Ethernet frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// The address of the interface's PCI device.
    pub pci: Option<String>,
    /// `up`, `down`, or `no carrier`.
    pub state: &'static str,
    /// Speed in Mbit/s, if known.
    pub speed: Option<u32>,
    /// NUMA node.
    pub node: Option<u32>,
    /// Ethernet address.
    pub mac: String,
    /// Largest packet.
    pub mtu: usize,
    /// Receive queues in use.
    pub rx_queues: usize,
    /// Transmit queues in use.
    pub tx_queues: usize,
    /// Offloads that are on.
    pub offloads: Vec<Offload>,
    /// Support of AF_XDP.
    pub xdp: Xdp,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The bridge, bond or VRF of the interface, such as `bridge br0`.
    pub member: Option<String>,
    /// True if a default route leads through the interface.
    pub default_route: bool,
}

impl Interface {
    /// True if the interface has an address that others can reach.
    pub fn is_addressed(&self) -> bool {
        self.addresses.iter().any(|address| match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        })
    }

    /// Names for the interface in a configuration, the usual first.
    pub fn port_names(&self) -> Vec<String> {
        vec![self.name.clone(), format!("af_xdp:{}", self.name)]
    }
}

const NET: &str = "sys/class/net";
/// `ARPHRD_ETHER`.
const ETHERNET: u32 = 1;

impl Machine {
    /// The interfaces of the namespace that carry Ethernet frames.
    pub fn interfaces(&self) -> Vec<Interface> {
        let addresses = self.kernel.addresses();
        let routed = self.default_routes();
        let names = self.files.list(NET).into_iter();
        names
            .filter(|name| self.files.number(&format!("{NET}/{name}/type")) == Some(ETHERNET))
            .map(|name| self.read_interface(name, &addresses, &routed))
            .collect()
    }

    fn read_interface(
        &self,
        name: String,
        addresses: &[(String, IpAddr)],
        routed: &[String],
    ) -> Interface {
        let at = |file: &str| format!("{NET}/{name}/{file}");
        let files = &self.files;
        let up = files.hex(&at("flags")).is_some_and(|flags| flags & 1 != 0);
        let carrier = files.number::<u8>(&at("carrier")) == Some(1);
        let driver = self.driver_of(&name);
        let queues = files.list(&at("queues"));
        let count = |prefix: &str| queues.iter().filter(|q| q.starts_with(prefix)).count();
        let (rx, tx) = self
            .kernel
            .queues(&name)
            .unwrap_or((count("rx-"), count("tx-")));
        let own = addresses.iter().filter(|(of, _)| *of == name);
        Interface {
            xdp: Xdp::of(driver.as_deref()),
            pci: self.pci_of(&name),
            state: match (up, carrier) {
                (false, _) => "down",
                (true, false) => "no carrier",
                (true, true) => "up",
            },
            // -1 means that the interface has no speed.
            speed: files
                .number::<i64>(&at("speed"))
                .and_then(|speed| u32::try_from(speed).ok()),
            node: files.number(&at("device/numa_node")),
            mac: files.read(&at("address")).unwrap_or_default(),
            mtu: files.number(&at("mtu")).unwrap_or(0),
            rx_queues: rx,
            tx_queues: tx,
            offloads: self.kernel.offloads(&name),
            addresses: own.map(|(_, address)| *address).collect(),
            member: self.member_of(&name),
            default_route: routed.contains(&name),
            driver,
            name,
        }
    }

    fn driver_of(&self, name: &str) -> Option<String> {
        let files = &self.files;
        let of_device = files.link(&format!("{NET}/{name}/device/driver"));
        of_device.or_else(|| self.kernel.driver(name))
    }

    /// The PCI device of an interface: its own, or the parent of its virtio device.
    fn pci_of(&self, name: &str) -> Option<String> {
        let path = self.files.path(&format!("{NET}/{name}/device"));
        let real = std::fs::canonicalize(path).ok()?;
        let parts: Vec<_> = real
            .iter()
            .rev()
            .take(2)
            .map(|part| part.to_string_lossy())
            .collect();
        parts
            .into_iter()
            .map(|part| part.into_owned())
            .find(|part| crate::is_address(part))
    }

    fn member_of(&self, name: &str) -> Option<String> {
        let files = &self.files;
        let master = files.link(&format!("{NET}/{name}/master"))?;
        let kind = ["bridge", "bonding"];
        let kind = kind
            .into_iter()
            .find(|kind| files.exists(&format!("{NET}/{master}/{kind}")));
        let kind = match kind {
            Some("bonding") => "bond",
            Some(kind) => kind,
            None => "master",
        };
        Some(format!("{kind} {master}"))
    }

    /// Interfaces of the main table's default routes.
    fn default_routes(&self) -> Vec<String> {
        let text = |path| self.files.read(path).unwrap_or_default();
        let mut found = Vec::new();
        for line in text("proc/thread-self/net/route").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [name, "00000000", _, _, _, _, _, "00000000", ..] = words[..] {
                found.push(name.to_owned());
            }
        }
        for line in text("proc/thread-self/net/ipv6_route").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            // The kernel's own route that rejects all packets uses `lo`.
            if let [to, "00", .., name] = words[..]
                && to.bytes().all(|digit| digit == b'0')
                && name != "lo"
            {
                found.push(name.to_owned());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[test]
    fn an_interface_is_described_by_the_kernels_data() {
        let mut fake = Fake::new();
        fake.card("0000:03:00.0", 0x8086, 0x10d3, Some("e1000e"));
        fake.interface("eth0", Some("0000:03:00.0"));
        fake.write("sys/class/net/eth0/speed", "1000");
        fake.write("sys/devices/pci0000:00/0000:03:00.0/numa_node", "1");
        fake.route("eth0");
        fake.told.addresses = vec![
            ("eth0".into(), "192.0.2.1".parse().unwrap()),
            ("eth1".into(), "fe80::1".parse().unwrap()),
        ];
        fake.told.offloads = vec![Offload::Gro];
        fake.interface("eth1", None);
        fake.write("sys/class/net/eth1/flags", "0x1002");
        fake.write("sys/class/net/eth1/speed", "-1");
        fake.interface("br0", None);
        fake.write("sys/class/net/br0/bridge/bridge_id", "8000");
        fake.symlink("../br0", "sys/class/net/eth1/master");
        fake.interface("lo", None);
        fake.write("sys/class/net/lo/type", "772");

        let found = fake.machine().interfaces();
        let names: Vec<&str> = found.iter().map(|i| &*i.name).collect();
        assert_eq!(names, ["br0", "eth0", "eth1"]);
        let (eth0, eth1) = (&found[1], &found[2]);
        assert_eq!(eth0.driver.as_deref(), Some("e1000e"));
        assert_eq!(eth0.pci.as_deref(), Some("0000:03:00.0"));
        assert_eq!(
            (eth0.state, eth0.speed, eth0.node),
            ("up", Some(1000), Some(1))
        );
        assert!(eth0.default_route && eth0.is_addressed());
        assert_eq!(
            (eth0.xdp, &*eth0.offloads),
            (Xdp::Generic, &[Offload::Gro][..])
        );
        assert_eq!((eth1.state, eth1.speed, &eth1.pci), ("down", None, &None));
        assert_eq!(eth1.member.as_deref(), Some("bridge br0"));
        assert!(
            !eth1.default_route && !eth1.is_addressed(),
            "link-local is not reachable"
        );
    }

    #[test]
    fn a_virtio_interface_is_on_the_pci_device_below() {
        let fake = Fake::new();
        fake.card("0000:00:04.0", 0x1af4, 0x1000, Some("virtio-pci"));
        fake.interface("eth0", None);
        fake.write(
            "sys/devices/pci0000:00/0000:00:04.0/virtio1/vendor",
            "0x1af4",
        );
        fake.symlink(
            "../../../devices/pci0000:00/0000:00:04.0/virtio1",
            "sys/class/net/eth0/device",
        );
        let found = fake.machine().interfaces();
        assert_eq!(found[0].pci.as_deref(), Some("0000:00:04.0"));
    }
}
