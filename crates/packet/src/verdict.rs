//! Verdicts: an element's decision about one packet.

/// Decision about a packet: it leaves by an output, or is dropped under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(u16);

impl Verdict {
    /// Leaves by output 0.
    pub const ON: Verdict = Verdict(0);

    /// Leaves by `port`.
    #[inline]
    pub const fn out(port: u8) -> Verdict {
        Verdict(port as u16)
    }

    /// The packet is dropped and counted under index `reason` of `Contract::drops`.
    #[inline]
    pub const fn drop(reason: u8) -> Verdict {
        Verdict::reject(reason, 0xff)
    }

    /// The packet leaves by `port` if that is connected; otherwise it is dropped and counted under index `reason` of
    /// `Contract::drops`.
    #[inline]
    pub const fn reject(reason: u8, port: u8) -> Verdict {
        Verdict((reason as u16 + 1) << 8 | port as u16)
    }

    /// The port, or 255 if there is none: an index less than PORTS.
    #[inline]
    pub fn port(self) -> usize {
        usize::from(self.0 as u8)
    }

    /// The drop reason.
    #[inline]
    pub fn reason(self) -> Option<u8> {
        ((self.0 >> 8) as u8).checked_sub(1)
    }
}
