//! Facts: proven properties of packets at a place in the graph. The planner proves the facts that elements require.

/// Properties of every packet at a place in the graph; proved before start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(u16);

impl Facts {
    /// Nothing.
    pub const NONE: Facts = Facts(0);
    /// All facts: the identity element for intersections over several paths.
    pub const ALL: Facts = Facts(u16::MAX);
    /// The data starts with an Ethernet header.
    pub const ETHER: Facts = Facts(1);
    /// The network header annotation marks an IPv4 header that was checked.
    pub const IP4: Facts = Facts::CHECKED4.and(Facts::NETWORK);
    /// The network header annotation marks an IPv6 header that was checked.
    pub const IP6: Facts = Facts::CHECKED6.and(Facts::NETWORK);
    /// The data starts with the network header.
    pub const AT_NETWORK: Facts = Facts(8);
    /// The destination address annotation is set to an IPv4 address.
    pub const DST4: Facts = Facts(16);
    /// The destination address annotation is set to an IPv6 address.
    pub const DST6: Facts = Facts(32);
    /// The network header annotation is set, to a header of any protocol.
    pub const NETWORK: Facts = Facts(64);
    const CHECKED4: Facts = Facts(2);
    const CHECKED6: Facts = Facts(4);

    const NAMES: [(Facts, &'static str); 7] = [
        (Facts::ETHER, "an Ethernet header at the start"),
        (Facts::NETWORK, "a network header annotation"),
        (Facts::CHECKED4, "a checked IPv4 header"),
        (Facts::CHECKED6, "a checked IPv6 header"),
        (Facts::AT_NETWORK, "the network header at the start"),
        (Facts::DST4, "an IPv4 destination annotation"),
        (Facts::DST6, "an IPv6 destination annotation"),
    ];

    /// Both sets together.
    pub const fn and(self, other: Facts) -> Facts {
        Facts(self.0 | other.0)
    }

    /// Facts in both sets.
    pub const fn common(self, other: Facts) -> Facts {
        Facts(self.0 & other.0)
    }

    /// This set without `other`.
    pub const fn without(self, other: Facts) -> Facts {
        Facts(self.0 & !other.0)
    }

    /// True if all of `needed` is known.
    pub const fn has(self, needed: Facts) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Each fact with its description. A checked header is also a marked one, so the fact `NETWORK` is then left out.
    fn named(self) -> impl Iterator<Item = (Facts, &'static str)> {
        let checked = Facts::CHECKED4.and(Facts::CHECKED6);
        let facts = match self.common(checked) {
            Facts::NONE => self,
            _ => self.without(Facts::NETWORK),
        };
        Facts::NAMES.into_iter().filter(move |(f, _)| facts.has(*f))
    }

    /// Each fact in words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        self.named().map(|(_, what)| what)
    }

    /// Required facts that are not `known`, in words, each with a remedy. Text in backquotes can be inserted before
    /// the element as it is.
    pub fn missing(self, known: Facts) -> impl Iterator<Item = (&'static str, String)> {
        let version6 = self.common(Facts::CHECKED6.and(Facts::DST6)) != Facts::NONE;
        let check = if version6 {
            "CheckIP6Header"
        } else {
            "CheckIPHeader"
        };
        // A frame from a port has an Ethernet header first: reading it as an IP packet would misinterpret every byte.
        let chain = match known.has(Facts::ETHER) {
            true => format!("Strip(14) -> {check}"),
            false => check.to_owned(),
        };
        self.without(known).named().map(move |(fact, what)| {
            let remedy = match fact {
                Facts::ETHER => {
                    "put `EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)` before it, with your addresses (0x86dd for \
                     IPv6), or do not strip the header before"
                        .to_owned()
                }
                Facts::NETWORK => {
                    "put `MPLSEncap(16)` before it, with your label, or check the IP header".to_owned()
                }
                Facts::DST4 | Facts::DST6 => format!("put `{chain}` or a route lookup before it"),
                _ => format!("put `{chain}` before it"),
            };
            (what, remedy)
        })
    }
}
