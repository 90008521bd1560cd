//! Exchanges IP packets with the kernel of this machine, through a TUN interface that it creates.
//!
//! ```click
//! tun :: KernelTun(10.64.0.1/24);   // the kernel is 10.64.0.1, the other addresses are the router's
//! tun -> CheckIPHeader -> IPClassifier(icmp type echo) -> ICMPPingResponder -> tun;
//! ```
//!
//! Packets that the kernel sends to the interface leave by output 0; the kernel receives the packets of the
//! input. The interface gets an address, and with it a route to its network; it disappears when the router
//! ends. Packets that are not IP, or are truncated, leave by output 1, or are dropped (`not_ip`). This needs
//! root's rights (CAP_NET_ADMIN).
//!
//! Arguments:
//!
//! - `ADDR`: the kernel's address with the length of its network's prefix.
//! - `GATEWAY`: gateway of the kernel's default route; 0.0.0.0, the default, for none.
//!
//! Keyword arguments:
//!
//! - `BURST`: packets taken at a time. Default 1.
//! - `HEADROOM`: accepted, and without effect: packets always have the usual headroom.
//! - `ETHER`: accepted, and without effect: these interfaces have no Ethernet address.
//! - `MTU`: maximum length of an IP packet in bytes. Default 1500; longer ones are dropped (`too_long`).
//! - `IGNORE_QUEUE_OVERFLOWS`: accepted, and without effect: packets for which the kernel has no room are
//!   counted (`full`).
//! - `DEVNAME`: the interface's name. Default is the first free one of tun0, tun1 ...

use crate::prelude::*;
use arguments::units::FromArg;
use arguments::{Kind, Names};
use engine::external::{self, External};
use engine::port::{RxQueue, Slot, TxQueue};
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use wire::{EtherAddr, Prefix4, ipv4, ipv6};

drops! {
    NOT_IP = "not_ip",
    TOO_LONG = "too_long",
    FULL = "full",
    REFUSED = "refused",
}

pub(crate) struct Config {
    /// Name of the port, which includes its settings.
    device: String,
    burst: usize,
    mtu: usize,
}

/// Differences between KernelTun and KernelTap.
pub(crate) trait Style: 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const PORTS: Ports;
    const FACTS: &'static [Facts];
    /// Keyword of the port for the layer with which packets begin.
    const LAYER: &'static str;
    /// Length of the link-layer header, in bytes.
    const LINK: usize;

    /// True if the element may emit a packet.
    fn may_emit(packet: &Packet) -> bool;
}

/// Style of KernelTun: packets begin with an IP header.
pub(crate) struct Ip;

impl Style for Ip {
    const CLASS: &'static str = "KernelTun";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in?"], &["out", "bad?"], "a/h");
    const FACTS: &'static [Facts] = &[Facts::NONE];
    const LAYER: &'static str = "ip";
    const LINK: usize = 0;

    fn may_emit(packet: &Packet) -> bool {
        let bytes = packet.data();
        ipv4::check_unsummed(bytes).is_ok() || ipv6::check(bytes).is_ok()
    }
}

/// Interface address with prefix length.
struct Interface(Ipv4Addr, u8);

impl FromArg for Interface {
    const KIND: &'static str = "an address with a prefix length such as 10.0.0.1/24";

    fn from_arg(raw: &str, names: &Names) -> Result<Interface, String> {
        let text = names.get(raw, Kind::IpNet).unwrap_or(raw);
        let parsed = Prefix4::parse_host(text);
        let wrong = |_| format!("must be {}, not `{raw}`", Self::KIND);
        parsed
            .map(|(address, len)| Interface(address, len))
            .map_err(wrong)
    }

    fn stand_in() -> Interface {
        Interface(Ipv4Addr::UNSPECIFIED, 0)
    }

    fn unparse(&self) -> String {
        format!("{}/{}", self.0, self.1)
    }
}

/// Parses the arguments into the port's name.
fn configure<S: Style>(args: &mut Args) -> Config {
    let address: Interface = args.required("ADDR", "the kernel's address and prefix length");
    let gateway = args.optional(
        "GATEWAY",
        Ipv4Addr::UNSPECIFIED,
        "gateway of the default route",
    );
    args.key_maybe::<u32>("HEADROOM", "bytes kept free before packets");
    let burst: usize = args.key("BURST", 1, "packets taken at a time");
    let ether: Option<EtherAddr> = args.key_maybe("ETHER", "the interface's Ethernet address");
    let mtu = args.key("MTU", 1500, "bytes of the longest IP packet");
    args.key(
        "IGNORE_QUEUE_OVERFLOWS",
        false,
        "accepted, and without effect",
    );
    let name: Option<String> = args.key_maybe("DEVNAME", "the interface's name");
    let mut device = format!("tun:{},addr={},mtu={mtu}", S::LAYER, address.unparse());
    if !gateway.is_unspecified() {
        device += &format!(",gateway={gateway}");
    }
    if let Some(ether) = ether {
        device += &format!(",ether={ether}");
    }
    if let Some(name) = name {
        device += &format!(",name={name}");
    }
    Config {
        device,
        burst: burst.max(1),
        mtu,
    }
}

pub(crate) struct KernelTun<S = Ip> {
    style: PhantomData<S>,
    from: Option<Slot<Box<dyn RxQueue>>>,
    to: Option<Slot<Box<dyn TxQueue>>>,
    rx: Option<Box<dyn RxQueue>>,
    tx: Option<Box<dyn TxQueue>>,
    pulls: bool,
    config: Arc<Config>,
    received: u64,
    sent: u64,
}

impl<S> Drop for KernelTun<S> {
    fn drop(&mut self) {
        if let (Some(slot), Some(queue)) = (&self.from, self.rx.take()) {
            slot.put_back(queue);
        }
        if let (Some(slot), Some(queue)) = (&self.to, self.tx.take()) {
            slot.put_back(queue);
        }
    }
}

impl<S: Style> KernelTun<S> {
    /// Receives a burst. Returns the number of packets.
    fn receive(&mut self, cx: &mut Cx) -> usize {
        if self.rx.is_none() {
            self.rx = self.from.as_ref().and_then(Slot::take);
        }
        let Some(queue) = &mut self.rx else {
            return 0;
        };
        let mut batch = cx.spare();
        let n = queue.receive(&mut batch, self.config.burst);
        self.received += n as u64;
        for mut packet in batch.drain() {
            packet.cold_mut().timestamp = cx.timestamp();
            if S::may_emit(&packet) {
                cx.emit(0, packet);
            } else if cx.connected(1) {
                cx.emit(1, packet);
            } else {
                cx.drop(packet, NOT_IP);
            }
        }
        cx.keep_spare(batch);
        n
    }
}

impl<S: Style> Element for KernelTun<S> {
    const CONTRACT: Contract = Contract::new(S::CLASS, S::MANUAL)
        .ports(S::PORTS)
        .needs(S::FACTS)
        .gives(S::FACTS)
        .drops(DROPS)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>(), &external::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        configure::<S>(args)
    }

    fn new(config: &Arc<Config>, init: &Init) -> KernelTun<S> {
        let port = init.ports.get(&config.device);
        let queue = init.queues.first().copied();
        let both = port.zip(queue);
        KernelTun {
            style: PhantomData,
            from: both.as_ref().and_then(|(p, q)| p.rx.get(*q).cloned()),
            to: both.as_ref().and_then(|(p, q)| p.tx.get(*q).cloned()),
            rx: None,
            tx: None,
            pulls: init.inputs > 0 && init.input_pull,
            config: Arc::clone(config),
            received: 0,
            sent: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        if self.tx.is_none() {
            self.tx = self.to.as_ref().and_then(Slot::take);
        }
        let longest = S::LINK + self.config.mtu;
        let mut fitting = cx.spare();
        for packet in batch.drain() {
            if packet.len() > longest {
                cx.drop(packet, TOO_LONG);
            } else {
                fitting.push(packet);
            }
        }
        if let Some(queue) = &mut self.tx {
            let mut refused = cx.spare();
            self.sent += queue.transmit(&mut fitting, &mut refused) as u64;
            cx.drop_batch(&mut refused, REFUSED);
            cx.keep_spare(refused);
        }
        cx.drop_batch(&mut fitting, FULL);
        cx.keep_spare(fitting);
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let mut moved = self.receive(cx);
        if self.pulls {
            let mut batch = cx.spare();
            moved += cx.pull(0, self.config.burst, &mut batch);
            self.process(0, &mut batch, cx);
            cx.keep_spare(batch);
        }
        if moved > 0 { Did::Work } else { Did::Nothing }
    }

    const HANDLERS: &'static [Handler<KernelTun<S>>] = &[
        counter!("received", "packets that the kernel sent", received),
        counter!("sent", "packets that the kernel was given", sent),
    ];
}

impl<S: Style> Resources for KernelTun<S> {
    fn placement(config: &Config) -> Placement {
        Placement {
            device: Some(Device {
                name: config.device.clone(),
                receives: true,
                ..Device::default()
            }),
            ..Placement::default()
        }
    }
}

impl<S: Style> External for KernelTun<S> {
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(self.rx.as_ref().and_then(|queue| queue.wait_fd()));
    }

    fn must_poll(&self) -> bool {
        self.from.is_some() && self.rx.is_none()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_address_has_a_prefix_length() {
        let errors = testkit::errors(crate::CLASSES, "Idle -> KernelTun(10.0.0.x/8) -> Discard");
        assert!(errors.contains("10.0.0.1/24"), "{errors}");
        let errors = testkit::errors(crate::CLASSES, "Idle -> KernelTap() -> Discard");
        assert!(errors.contains("ADDR"), "{errors}");
    }
}
