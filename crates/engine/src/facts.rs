//! What is known about packets at a place in the graph; `plan` proves what elements need.

/// What is known about every packet at a place in the graph; proved before start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(u16);

impl Facts {
    /// Nothing.
    pub const NONE: Facts = Facts(0);
    /// Everything: the identity when facts of several paths meet.
    pub const ALL: Facts = Facts(u16::MAX);
    /// The data starts with an Ethernet header.
    pub const ETHER: Facts = Facts(1);
    /// The network header annotation marks an IPv4 header that was checked.
    pub const IP4: Facts = Facts(2);
    /// The network header annotation marks an IPv6 header that was checked.
    pub const IP6: Facts = Facts(4);
    /// The data starts with the network header.
    pub const AT_NETWORK: Facts = Facts(8);
    /// The destination address annotation is set to an IPv4 address.
    pub const DST4: Facts = Facts(16);
    /// The destination address annotation is set to an IPv6 address.
    pub const DST6: Facts = Facts(32);

    const NAMES: [(Facts, &'static str, &'static str); 6] = [
        (
            Facts::ETHER,
            "an Ethernet header at the start",
            "do not strip it before, or put EtherEncap before it",
        ),
        (
            Facts::IP4,
            "a checked IPv4 header",
            "put CheckIPHeader (or MarkIPHeader) before it",
        ),
        (
            Facts::IP6,
            "a checked IPv6 header",
            "put CheckIP6Header (or MarkIP6Header) before it",
        ),
        (
            Facts::AT_NETWORK,
            "the network header at the start",
            "put Strip(14) before CheckIPHeader or CheckIP6Header",
        ),
        (
            Facts::DST4,
            "an IPv4 destination annotation",
            "put CheckIPHeader, GetIPAddress or a route lookup before it",
        ),
        (
            Facts::DST6,
            "an IPv6 destination annotation",
            "put CheckIP6Header or a route lookup before it",
        ),
    ];

    /// Both sets together.
    pub const fn and(self, other: Facts) -> Facts {
        Facts(self.0 | other.0)
    }

    /// What both sets have.
    pub const fn common(self, other: Facts) -> Facts {
        Facts(self.0 & other.0)
    }

    /// This set without `other`.
    pub const fn without(self, other: Facts) -> Facts {
        Facts(self.0 & !other.0)
    }

    /// Whether all of `needed` is known.
    pub const fn has(self, needed: Facts) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Each fact in words, and what gives it.
    pub fn words(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        Facts::NAMES
            .into_iter()
            .filter(move |(f, ..)| self.has(*f))
            .map(|(_, w, r)| (w, r))
    }
}
