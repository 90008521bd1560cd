//! Prepends Ethernet headers to packets to the kernel's neighbours: the element of both classes.

use crate::prelude::*;
use forwarding::neighbour::{Event, Resolution, Resolver};
use forwarding::{Interface, Key, key4};
use std::marker::PhantomData;
use std::net::IpAddr;
use wire::{EtherAddr, ether};

// Only packets with MPLS labels, or whose labels were popped, are dropped for the last two reasons.
drops! {
    NO_ADDRESS = "no_address",
    UNREACHABLE = "unreachable",
    FULL = "full",
    DOWN = "down",
    NO_HEADROOM = "no_headroom",
    TOO_LONG = "too_long",
    NOT_IP = "not_ip",
}

const OUT_UNREACHABLE: u8 = 1;
/// Pseudo-verdict: the packet waits for address resolution.
const WAIT: Verdict = Verdict::out(254);

/// Class-specific constants and operations.
pub(crate) trait Family: 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Dataflow facts about incoming packets and packets that leave by output 1.
    const PACKET: Facts;
    /// EtherType of the packets.
    const ETHERTYPE: u16;
    /// Type of [`hop_key`](Self::hop_key).
    type HopKey: Copy + Default + PartialEq;
    /// True if the packets carry MPLS labels, or had labels that were popped.
    const IS_LABELLED: bool = false;

    /// Next hop as an IPv6 address, in a number that is compared in one step.
    fn key(packet: &Packet) -> u128;
    /// Number of the next hop that takes fewer instructions than [`key`](Self::key). Equal numbers other than 0 mean
    /// equal keys. With 0, only the key says whether there is a next hop, and which.
    fn hop_key(packet: &Packet) -> Self::HopKey;
    /// Adds 1 to a packet's TTL, to undo an earlier decrement.
    fn give_back(packet: &mut Packet);
}

/// [`Family::key`] of packets whose next hop is IPv4, or IPv6 by annotation.
#[inline]
pub(super) fn key4_or_6(packet: &Packet) -> u128 {
    let anno = packet.anno();
    anno.via6().unwrap_or_else(|| key4(anno.dst4()))
}

/// [`Family::hop_key`] of the same packets: an IPv4 address, and 0 for an IPv6 next hop.
#[inline]
pub(super) fn brief4(packet: &Packet) -> u32 {
    let anno = packet.anno();
    match anno.via6() {
        None => u32::from_ne_bytes(anno.dst4()),
        Some(_) => 0,
    }
}

/// State for sending: frames, neighbour requests and discarded packets.
struct Sender {
    interface: Arc<Interface>,
    /// Ethernet address of the interface; `None` while the interface is down.
    ether: Option<EtherAddr>,
    /// Ethernet header for the most recently used neighbour, stored contiguously so that one copy writes it.
    header: [u8; ether::LEN],
    asks: u64,
}

impl Sender {
    fn act<F: Family>(&mut self, event: Event<Key>, cx: &mut Cx) {
        match event {
            Event::Ready(mac, mut packet) => match self.header::<F>(mac) {
                Some(header) => {
                    let last = std::mem::replace(&mut self.header, header);
                    let verdict = encapsulate::<F>(&mut packet, self);
                    self.header = last;
                    cx.send(packet, verdict);
                }
                None => cx.drop(packet, DOWN),
            },
            Event::Ask(key, _) => {
                self.asks += 1;
                self.interface.ask(forwarding::address(key));
            }
            Event::Failed(packet) => give_up::<F>(packet, cx),
            Event::Full(packet) => cx.drop(packet, FULL),
        }
    }

    /// Ethernet header for a neighbour; `None` if the interface is down.
    fn header<F: Family>(&self, mac: EtherAddr) -> Option<[u8; ether::LEN]> {
        Some(ether::header(mac, self.ether?, F::ETHERTYPE))
    }
}

/// Ethernet group address of a multicast or broadcast destination; `None` for a unicast address.
fn group(address: IpAddr) -> Option<EtherAddr> {
    match address {
        IpAddr::V4(ip) if ip.is_multicast() => Some(EtherAddr::multicast4(ip)),
        IpAddr::V4(ip) => ip.is_broadcast().then_some(EtherAddr::BROADCAST),
        IpAddr::V6(ip) => ip.is_multicast().then(|| EtherAddr::multicast6(ip)),
    }
}

fn give_up<F: Family>(mut packet: Packet, cx: &mut Cx) {
    F::give_back(&mut packet);
    cx.send(packet, Verdict::reject(UNREACHABLE, OUT_UNREACHABLE));
}

/// Prepends an Ethernet header to the packet's IP header or labels.
#[inline]
fn encapsulate<F: Family>(packet: &mut Packet, sender: &Sender) -> Verdict {
    if !F::IS_LABELLED {
        return on_if(packet.replace_mac(&sender.header), NO_HEADROOM);
    }
    match labelled_type(packet, sender.interface.mtu()) {
        Ok(ethertype) => {
            let mut header = sender.header;
            [header[12], header[13]] = ethertype.to_be_bytes();
            on_if(packet.push_mac(&header), NO_HEADROOM)
        }
        Err(reason) => Verdict::drop(reason),
    }
}

/// EtherType of a packet that begins with labels, or whose labels were popped. The error is a drop reason.
fn labelled_type(packet: &Packet, mtu: usize) -> Result<u16, u8> {
    if packet.len() > mtu {
        return Err(TOO_LONG);
    }
    match (
        packet.network_offset(),
        packet.data().first().map(|b| b >> 4),
    ) {
        (1.., _) => Ok(ether::MPLS),
        (_, Some(4)) => Ok(ether::IPV4),
        (_, Some(6)) => Ok(ether::IPV6),
        _ => Err(NOT_IP),
    }
}

pub(crate) struct Deliver<F> {
    resolver: Resolver<Key>,
    sender: Sender,
    family: PhantomData<F>,
}

/// A batch of packets to be sent.
struct Sending<'a, 'c, F: Family> {
    resolver: &'a mut Resolver<Key>,
    sender: &'a mut Sender,
    cx: &'a mut Cx<'c>,
    /// Next hop for which the sender's header was made, as [`Family::hop_key`] and as [`Family::key`]; 0 for none.
    /// Packets of a batch often share their next hop.
    last_next_hop: (F::HopKey, u128),
}

impl<F: Family> Sending<'_, '_, F> {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> Verdict {
        let brief = F::hop_key(packet);
        if (brief != self.last_next_hop.0 || brief == F::HopKey::default())
            && let Err(verdict) = self.turn_to(packet)
        {
            return verdict;
        }
        encapsulate::<F>(packet, self.sender)
    }

    /// Resolves a packet's next hop and prepares its Ethernet header. The error is the packet's verdict.
    #[inline(never)] // a step without it is small enough to be compiled into the batch's loop
    fn turn_to(&mut self, packet: &Packet) -> Result<(), Verdict> {
        let number = F::key(packet);
        if number == self.last_next_hop.1 && number != 0 {
            return Ok(());
        }
        let key = number.to_be_bytes();
        let address = forwarding::address(key);
        if address.is_unspecified() {
            return Err(Verdict::drop(NO_ADDRESS));
        }
        let (sender, cx) = (&mut *self.sender, &mut *self.cx);
        let found = match group(address) {
            Some(mac) => Resolution::Known(mac),
            None => {
                let now = cx.now();
                self.resolver
                    .find(key, || 0, now, &mut |event| sender.act::<F>(event, cx))
            }
        };
        match found {
            Resolution::Known(mac) => {
                let header = sender.header::<F>(mac);
                sender.header = header.ok_or(Verdict::drop(DOWN))?;
                self.last_next_hop = (F::hop_key(packet), number);
                Ok(())
            }
            Resolution::Wait => Err(WAIT),
            // The kernel may know a neighbour for which the table has no room.
            Resolution::Unreachable | Resolution::TableFull | Resolution::TooMany => {
                Err(Verdict::out(OUT_UNREACHABLE))
            }
        }
    }

    /// Handles a packet that is not sent as a frame.
    fn hold_or_drop(&mut self, packet: Packet, verdict: Verdict) {
        let (sender, cx) = (&mut *self.sender, &mut *self.cx);
        match verdict.reason() {
            Some(reason) => cx.drop(packet, reason),
            None if verdict == WAIT => {
                let (key, now) = (F::key(&packet).to_be_bytes(), cx.now());
                cx.each_segment(packet, |packet, cx| {
                    self.resolver
                        .hold(key, packet, now, &mut |event| sender.act::<F>(event, cx));
                });
            }
            None => give_up::<F>(packet, cx),
        }
    }
}

impl<F: Family> Element for Deliver<F> {
    const CONTRACT: Contract = Contract::new(F::CLASS, F::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "unreachable?"], "h/h"))
        .needs(&[F::PACKET])
        .gives(&[Facts::ETHER, F::PACKET])
        .spoils(Facts::AT_NETWORK)
        .drops(match F::IS_LABELLED {
            true => DROPS,
            false => DROPS.split_at(TOO_LONG as usize).0,
        })
        .extensions(const { &[&resources::of::<Self>()] })
        .carries_super_frames_if(|_| !F::IS_LABELLED);

    type Config = Arc<Interface>;

    fn configure(args: &mut Args) -> Arc<Interface> {
        super::named(args)
    }

    fn new(interface: &Arc<Arc<Interface>>, init: &Init) -> Deliver<F> {
        let link = interface.link();
        link.set_now(init.now);
        Deliver {
            resolver: Resolver::new(link, init.workers),
            sender: Sender {
                interface: Arc::clone(interface),
                ether: None,
                header: [0; ether::LEN],
                asks: 0,
            },
            family: PhantomData,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let Deliver {
            resolver, sender, ..
        } = self;
        sender.ether = sender.interface.mac();
        if sender.ether.is_none() {
            return cx.drop_batch(batch, DOWN);
        }
        resolver.catch_up(&mut |event| sender.act::<F>(event, cx));
        let mut sending = Sending::<F> {
            resolver,
            sender,
            cx,
            last_next_hop: Default::default(),
        };
        batch.split(
            &mut sending,
            |packet, sending| sending.step(packet),
            |packet, verdict, sending| sending.hold_or_drop(packet, verdict),
        );
        if let Some(at) = self.resolver.arm(cx.now()) {
            cx.set_timer(at);
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        let Deliver {
            resolver, sender, ..
        } = self;
        sender.ether = sender.interface.mac();
        let next = resolver.tick(cx.now(), &mut |event| sender.act::<F>(event, cx));
        if let Some(at) = next {
            cx.set_timer(at);
        }
    }

    fn held(&self) -> usize {
        self.resolver.held()
    }

    fn take(&mut self, old: Deliver<F>) {
        self.resolver.take(old.resolver);
    }

    const HANDLERS: &'static [Handler<Deliver<F>>] = &[
        Handler::shared(
            "table",
            "a line per neighbour that is known: address, Ethernet address, state",
            |interface: &Arc<Interface>, _| {
                let mut known = interface.neighbours();
                known.retain(|(address, _)| {
                    F::IS_LABELLED || address.is_ipv6() == (F::ETHERTYPE == ether::IPV6)
                });
                known.sort_unstable_by_key(|(address, _)| *address);
                Ok(known
                    .iter()
                    .map(|(address, neighbour)| format!("{address} {neighbour}\n"))
                    .collect())
            },
        ),
        Handler::shared(
            "count",
            "neighbours of both families, known or asked for",
            |interface: &Arc<Interface>, _| Ok(interface.link().table().len().to_string()),
        ),
        Handler::sum("length", "packets that wait", |e| e.held() as u64),
        counter!("asks", "requests to the kernel", sender.asks),
    ];
}

impl<F: Family> Resources for Deliver<F> {
    fn memory(interface: &Arc<Interface>) -> usize {
        interface.link().memory() / 2 // a half each: LinuxARP and LinuxND have the table
    }
}

#[cfg(test)]
#[path = "deliver_tests.rs"]
mod tests;
