//! Switches packets by their outermost MPLS label, using the kernel's MPLS routes.
//!
//! ```click
//! FromDevice(null:64) -> c :: Classifier(12/8847, -) -> LinuxMPLSInput(eth0) -> Strip(14)
//!     -> mpls :: LinuxMPLSLookup(eth0, eth1);
//! c[1] -> Discard;
//! mpls[0] -> CheckIPHeader -> Discard;        // IPv4 below labels that were this router's
//! mpls[1] -> CheckIP6Header -> Discard;       // IPv6 likewise
//! mpls[2] -> Unstrip(14) -> Discard;          // the kernel's business
//! mpls[3] -> LinuxMPLSEtherEncap(eth0) -> Discard;
//! mpls[4] -> LinuxMPLSEtherEncap(eth1) -> Discard;
//! ```
//!
//! The packet begins with its label stack; put Strip(14) before, and LinuxMPLSInput before that. The table follows
//! the routes of the family `mpls` in the router's namespace, whatever sets them (`ip -f mpls route`, FRR's LDP,
//! segment routing or static LSPs), or those that FRR sends by FPM. Labels are swapped, pushed and popped by these
//! routes, as in MPLSLookup. With several next hops a flow, identified by the IP packet below the labels, always
//! takes the same one.
//!
//! Outputs 0 and 1: a label of a route by `dev lo`, and explicit null, are this router's; when the last label is
//! popped, the IP packet leaves to be routed by its address. Its Ethernet header is moved to the IP header, so that
//! Unstrip(14) gives a frame as if there had been no labels. Output 2: packets that the kernel must handle, unchanged:
//! labels without a route, and those whose route goes by an interface that is not listed here or that is more than 8
//! labels deep. Then come the interfaces in the order of the arguments. The destination annotation is the next hop's
//! address.
//!
//! Packets whose time to live has expired are dropped (`expired`), as Linux does, and those without room for more
//! labels (`no_headroom`); packets whose stack does not end (`bad_stack`).
//!
//! All LinuxMPLSLookups of a router share one table, which is kept when the configuration is replaced.
//!
//! Arguments:
//!
//! - `NAME`, any number of: interfaces of the router's namespace. If there is none, they are found as LinuxIPLookup
//!   finds them, by outputs 3, 4 ...
//!
//! Keyword arguments:
//!
//! - `MODE`: `uniform` or `pipe` (RFC 3443), as of MPLSLookup. Default uniform, as Linux's `net.mpls.ip_ttl_propagate`.

use super::route_text;
use crate::mpls::header::Mode;
use crate::mpls::switch::{self, Stop, Switch};
use crate::mpls::syntax;
use crate::prelude::*;
use elements::secret;
use forwarding::Interface;
use forwarding::LabelRoutes;
use forwarding::label_table::Hop;
use forwarding::{EXCEPTION, Kernel, LOCAL};
use std::net::IpAddr;
use wire::ether;

drops! {
    EXPIRED = "expired",
    BAD_STACK = "bad_stack",
    NO_HEADROOM = "no_headroom",
}

const OUT_LOCAL4: u8 = 0;
const OUT_LOCAL6: u8 = 1;
const OUT_EXCEPTION: Verdict = Verdict::out(2);
pub(super) const OUT_FIRST: usize = 3;

pub(crate) struct Config {
    switch: Switch,
    interfaces: Vec<Arc<Interface>>,
    routes: Arc<LabelRoutes>,
    /// Mirror of the kernel, for interface names in handlers.
    kernel: Arc<Kernel>,
}

impl Config {
    /// Verdict by the next hop's port; `None` if the kernel must handle the packet.
    fn outputs(&self) -> Box<[Option<Verdict>]> {
        let numbers = self.interfaces.iter().map(|i| usize::from(i.number()));
        let mut all = vec![None; numbers.max().map_or(0, |max| max + 1)];
        for (at, interface) in self.interfaces.iter().enumerate() {
            let output = Verdict::out((OUT_FIRST + at) as u8);
            all[usize::from(interface.number())] = Some(output);
        }
        all.into()
    }

    fn show(&self, label: u32) -> Option<String> {
        let (names, hops) = (
            route_text::Names::of(&self.kernel),
            self.routes.hops(label)?,
        );
        Some(syntax::show(&hops, |port| names.port(port).to_owned()))
    }
}

pub(crate) struct LinuxMPLSLookup {
    config: Arc<Config>,
    outputs: Box<[Option<Verdict>]>,
}

impl Element for LinuxMPLSLookup {
    const CONTRACT: Contract = Contract::new("LinuxMPLSLookup", manual!())
        .ports(Ports::coded(
            &["in"],
            &["local4", "local6", "exception", "out*"],
            "h/h",
        ))
        .gives(&[Facts::NETWORK])
        .spoils(Facts::ALL)
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mode = args.key(
            "MODE",
            Mode::Uniform,
            "time to live and class: uniform or pipe",
        );
        let interfaces = super::interfaces(args, OUT_FIRST);
        let kernel = args.router_wide::<Kernel>();
        let routes = Arc::clone(kernel.use_labels());
        Config {
            switch: Switch {
                table: Arc::clone(routes.table()),
                mode,
                seed: secret(cfg!(test)) as u32,
            },
            interfaces,
            routes,
            kernel,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> LinuxMPLSLookup {
        LinuxMPLSLookup {
            config: Arc::clone(config),
            outputs: config.outputs(),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.switch.seed = old.switch.seed; // flows stay on their next hops
    }

    const HANDLERS: &'static [Handler<LinuxMPLSLookup>] = &[
        Handler::shared(
            "table",
            "a route per line: label, and its next hops",
            |c: &Config, _| {
                let labels = c.routes.labels().into_iter();
                let lines =
                    labels.filter_map(|label| Some(format!("{label} {}\n", c.show(label)?)));
                Ok(lines.collect())
            },
        ),
        Handler::shared(
            "lookup",
            "`LABEL`: its next hops; -1 without a route",
            |c: &Config, label| {
                let label = syntax::label(label.trim())?;
                Ok(c.show(label).unwrap_or_else(|| "-1".to_owned()))
            },
        ),
        Handler::shared(
            "length",
            "number of labels with a route",
            |c: &Config, _| Ok(c.routes.labels().len().to_string()),
        ),
    ];
}

impl Resources for LinuxMPLSLookup {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, Some(OUT_FIRST + config.interfaces.len()))
    }
}

/// Moves a packet's Ethernet header to its IP header, after labels were popped, so that the kernel can receive the
/// packet.
fn move_ether(packet: &mut Packet, ethertype: u16) {
    let before = packet
        .mac()
        .map_or(0, <[u8]>::len)
        .saturating_sub(packet.len());
    let Some(gone) = before.checked_sub(ether::LEN) else {
        return;
    };
    if let Some(head) = packet.push(before) {
        head.copy_within(..ether::LEN, gone);
        let [.., high, low] = head else { return };
        [*high, *low] = ethertype.to_be_bytes();
        let _ = packet.pull(gone);
        packet.set_mac_here();
        let _ = packet.pull(ether::LEN);
    }
}

impl Fuse for LinuxMPLSLookup {
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (table, reader, outputs) = (&*self.config.switch.table, cx.reader(), &self.outputs);
        #[inline(always)]
        move |packet| {
            let out = |port: u16| *outputs.get(usize::from(port))?;
            switch::swap(table, reader, packet, out)
        }
    }

    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let out = |hop: &Hop| match hop.port {
            LOCAL => Ok(Verdict::ON),
            EXCEPTION => Err(OUT_EXCEPTION),
            port => {
                let output = self.outputs.get(usize::from(port)).copied().flatten();
                output.ok_or(OUT_EXCEPTION)
            }
        };
        match self.config.switch.slow(packet, cx.reader(), out) {
            Ok((hop, _)) if hop.port == LOCAL => {
                packet.set_network_offset(0);
                let (ethertype, output) = match packet.data().first().map(|first| first >> 4) {
                    Some(6) => (ether::IPV6, OUT_LOCAL6),
                    _ => (ether::IPV4, OUT_LOCAL4),
                };
                move_ether(packet, ethertype);
                Verdict::out(output)
            }
            Ok((hop, verdict)) => {
                match hop.gateway {
                    Some(IpAddr::V4(gateway)) => packet.anno_mut().set_dst4(gateway.octets()),
                    Some(IpAddr::V6(gateway)) => packet.anno_mut().set_via6(gateway.octets()),
                    None => {}
                }
                verdict
            }
            Err(Stop::Verdict(verdict)) => verdict,
            Err(Stop::NoLabel) => OUT_EXCEPTION,
            Err(Stop::Expired) => Verdict::drop(EXPIRED),
            Err(Stop::BadStack) => Verdict::drop(BAD_STACK),
            Err(Stop::NoHeadroom) => Verdict::drop(NO_HEADROOM),
        }
    }
}

#[cfg(test)]
#[path = "linux_mpls_lookup_tests.rs"]
mod tests;
