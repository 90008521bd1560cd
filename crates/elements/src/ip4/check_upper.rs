//! Common part of classes that check headers above IPv4: one element over a family of classes.

use super::faults::{self, Faults, Wording};
use crate::ip4;
use crate::prelude::*;
use std::marker::PhantomData;
use wire::Ipv4;

/// Drop reason: the packet has another protocol than the class checks.
pub(crate) const OTHER_PROTOCOL: u8 = 0;
/// Drop reason: a length field is wrong.
pub(crate) const BAD_LENGTH: u8 = 1;
/// Drop reason: the checksum is wrong.
pub(crate) const BAD_CHECKSUM: u8 = 2;

/// Constants and checks of a protocol over IPv4.
pub(crate) trait Upper: Sized + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    /// Protocol number in IPv4 headers.
    const PROTOCOL: u8;
    /// Names of the three drop reasons, in this router's words and in Click's.
    const DROPS: &'static [&'static str];
    const WORDING: &'static Wording<3>;

    /// Drop reason for a payload; `length` is its length according to the IP header, in bytes.
    fn fault(ip: &Ipv4<&[u8]>, payload: &[u8], length: usize, as_click: bool) -> Option<u8>;
}

/// Checks the header of protocol `P`.
pub(crate) struct Checker<P> {
    faults: Faults<3>,
    as_click: bool,
    protocol: PhantomData<P>,
}

impl<P: Upper> Element for Checker<P> {
    const CONTRACT: Contract = Contract::new(P::CLASS, P::MANUAL)
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .needs(&[Facts::IP4])
        .drops(P::DROPS);

    type Config = bool;

    fn configure(args: &mut Args) -> bool {
        faults::verbose(args)
    }

    fn new(verbose: &Arc<bool>, init: &Init) -> Checker<P> {
        Checker {
            faults: Faults::new(**verbose, P::WORDING, init),
            as_click: init.as_click(),
            protocol: PhantomData,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let fault = match ip4::header(packet).filter(|ip| ip.protocol() == P::PROTOCOL) {
            Some(ip) => {
                let (payload, length) = ip4::segment(packet, &ip);
                P::fault(&ip, payload, length, self.as_click)
            }
            None => Some(OTHER_PROTOCOL),
        };
        match fault {
            None => Verdict::ON,
            Some(fault) => self.faults.reject(fault),
        }
    }

    fn take(&mut self, old: Checker<P>) {
        self.faults.take(old.faults);
    }

    const HANDLERS: &'static [Handler<Checker<P>>] = &[
        Handler::sum("drops", "bad packets", |e| e.faults.total()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            Ok(e.faults.details())
        }),
    ];
}
