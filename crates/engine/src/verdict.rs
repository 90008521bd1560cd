//! What an element says of a packet, and a task of its run.

/// Where a packet goes after a step: on by output 0, out by another port, or dropped by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(u16);

impl Verdict {
    /// On by output 0.
    pub const ON: Verdict = Verdict(0);

    /// Out by `port`.
    #[inline]
    pub const fn out(port: u8) -> Verdict {
        Verdict(port as u16)
    }

    /// Dropped under the `reason`-th name of `Element::DROPS`.
    #[inline]
    pub const fn drop(reason: u8) -> Verdict {
        Verdict::reject(reason, 0xff)
    }

    /// Out by `port` if that is connected, else dropped under the `reason`-th name.
    #[inline]
    pub const fn reject(reason: u8, port: u8) -> Verdict {
        Verdict((reason as u16 + 1) << 8 | port as u16)
    }

    /// The port, or 255: as an index less than PORTS.
    #[inline]
    pub fn port(self) -> usize {
        usize::from(self.0 as u8)
    }

    /// The drop reason.
    #[inline]
    pub fn reason(self) -> Option<usize> {
        usize::from(self.0 >> 8).checked_sub(1)
    }
}

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It moved packets: run it again soon.
    Work,
    /// Nothing was there; poll it again.
    Nothing,
    /// Nothing was there, and a notifier or a timer will wake it; see `Cx::rest`.
    Sleep,
    /// It will never have work again (its file has ended, its limit is reached).
    End,
}
