//! Common part of classes that check headers above IPv4: one element over a family of classes.

use super::faults::{self, Faults, Wording};
use crate::ip4;
use crate::prelude::*;
use std::marker::PhantomData;
use wire::Ipv4;

/// Faults of a header above IPv4, as drop reasons.
pub(crate) const OTHER_PROTOCOL: u8 = 0;
/// See [`OTHER_PROTOCOL`].
pub(crate) const BAD_LENGTH: u8 = 1;
/// See [`OTHER_PROTOCOL`].
pub(crate) const BAD_CHECKSUM: u8 = 2;

/// A class of the family: a protocol above IPv4.
pub(crate) trait Upper: Sized + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    /// Protocol number in IPv4 headers.
    const PROTOCOL: u8;
    /// Names of the three faults: for drops, and in Click's words.
    const DROPS: &'static [&'static str];
    const WORDING: &'static Wording<3>;

    /// Fault of the payload after a header of this protocol; `length` is the length that the header promises.
    fn fault(ip: &Ipv4<&[u8]>, payload: &[u8], length: usize, as_click: bool) -> Option<u8>;
}

/// An element that checks a protocol's header.
pub(crate) struct Checker<P> {
    faults: Faults<3>,
    as_click: bool,
    protocol: PhantomData<P>,
}

impl<P: Upper> Element for Checker<P> {
    const CLASS: &'static str = P::CLASS;
    const MANUAL: &'static str = P::MANUAL;
    const PORTS: Ports = Ports::new(&["in"], &["out", "bad?"]);
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = P::DROPS;
    const READS_ANNOTATIONS: bool = true;

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
