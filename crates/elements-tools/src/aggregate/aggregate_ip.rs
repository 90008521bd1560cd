//! Sets the AGGREGATE annotation to a field of the IPv4 packet.
//!
//! ```click
//! FromIPSummaryDump(-) -> AggregateIP(ip dst/24) -> ac :: AggregateCounter -> Discard;
//! ```
//!
//! A field is given by its name (`ip tos`, `tcp dport`, `sport`) or by its position: `ip[8:2]` is two bytes from byte
//! 8 on, `ip[8-9]` the bytes 8 and 9, `ip[8]` one byte; with braces instead of brackets the numbers are bits.
//! Positions are in the header `ip`, in the transport header `transp` (also `tcp`, `udp` and `icmp`, for these
//! protocols only), or in `data` after a TCP or UDP header. `/N` after the field takes its top N bits, and `& MASK`
//! the bits of a mask.
//!
//! Names: `ip` `vers`, `hl`, `tos`, `dscp`, `ecn`, `len`, `id`, `off`, `rf`, `df`, `mf`, `fragoff`, `ttl`,
//! `proto`, `sum`, `src`, `dst`; `tcp` `sport`, `dport`, `seq`, `ack`, `hl`, `flags`, `fin`, `syn`, `rst`,
//! `psh`, `ackf`, `urg`, `win`, `sum`, `urp`; `udp` `sport`, `dport`, `len`, `sum`; `icmp` `type`, `code`,
//! `sum`; `sport` and `dport` of TCP and UDP.
//!
//! Packets without the field, such as later fragments, leave by output 1, or are dropped (`no_field`).
//!
//! Arguments:
//!
//! - `FIELD`: the field, of at most 32 bits.
//!
//! Keyword arguments:
//!
//! - `INCREMENTAL`: true if the field's bits are appended to the packet's AGGREGATE annotation. Default false.
//! - `UNSHIFT_IP_ADDR`: true if the bits taken from an address keep their position in it. Default false.

use super::field::{Base, Field};
use crate::prelude::*;

drops! {
    NO_FIELD = "no_field",
}

#[derive(Clone, Copy)]
pub(super) struct AggregateIp {
    field: Field,
    incremental: bool,
    /// Number of bits by which the value is shifted to the left.
    shift: u32,
}

impl Element for AggregateIp {
    const CONTRACT: Contract = Contract::new("AggregateIP", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "a/ah"))
        .drops(DROPS);

    type Config = AggregateIp;

    fn configure(args: &mut Args) -> AggregateIp {
        let field: Field = args.required("FIELD", "the field, of at most 32 bits");
        let incremental = args.key("INCREMENTAL", false, "true if the field is appended");
        let unshift = args.key("UNSHIFT_IP_ADDR", false, "true if bits keep their position");
        if incremental && unshift {
            args.error_in_whole(
                "INCREMENTAL and UNSHIFT_IP_ADDR are mutually exclusive",
                "leave one out",
            );
        }
        AggregateIp {
            field,
            incremental,
            shift: field.in_address().filter(|_| unshift).unwrap_or(0),
        }
    }

    fn new(config: &Arc<AggregateIp>, _: &Init) -> AggregateIp {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(value) = self.field.value(packet) else {
            return Verdict::reject(NO_FIELD, 1);
        };
        let cold = packet.cold_mut();
        let high = match self.incremental {
            true => cold.aggregate().checked_shl(self.field.length).unwrap_or(0),
            false => 0,
        };
        cold.set_aggregate(high | value << self.shift);
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<AggregateIp>] = &[
        Handler::text("header", "the header in which the field is", |e, _| {
            Ok(match e.field.base {
                Base::Ip => "ip",
                Base::Transp => "transp",
                Base::Payload => "payload",
            }
            .to_owned())
        }),
        Handler::text("bit_offset", "where the field starts, in bits", |e, _| {
            Ok(e.field.offset.to_string())
        }),
        Handler::text("bit_length", "bits of the field", |e, _| {
            Ok(e.field.length.to_string())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    /// The aggregates of packets that have the field.
    fn seen(config: &str) -> Vec<u32> {
        let lines = "1.2.3.4 10.0.0.1 7 U 4660 80 0 0123\n1.2.3.5 10.0.0.2 1 T 5 6 0 XY\n\
                     1.2.3.6 10.0.0.3 2 T 5 6 8 XY\n9.9.9.9 1.1.1.1 3 I - - 0 z\n";
        let text = format!(
            "FromIPSummaryDump(DATA \"!data src dst ip_tos proto sport dport ip_fragoff payload
{lines}\", CHECKSUM true) -> a :: AggregateIP({config}) -> out :: Collect"
        );
        let mut bench = Bench::strict(crate::with_basics(), &text);
        bench.run();
        let out = bench.take_packets("out");
        assert_eq!(out.len() as u64 + bench.drops("a", "no_field"), 4);
        out.iter().map(|p| p.cold.aggregate()).collect()
    }

    #[test]
    fn fields_of_all_headers_are_found() {
        assert_eq!(seen("ip tos"), [7, 1, 2, 3]);
        assert_eq!(seen("ip src/8"), [1, 1, 1, 9]);
        assert_eq!(
            seen("ip src/16, UNSHIFT_IP_ADDR true"),
            [0x0102_0000, 0x0102_0000, 0x0102_0000, 0x0909_0000]
        );
        assert_eq!(seen("ip[15] & 0xe"), [2, 2, 3, 4]);
        assert_eq!(seen("sport"), [4660, 5]);
        assert_eq!(seen("tcp dport"), [6]);
        assert_eq!(seen("udp[0:2]"), [0x1234]);
        assert_eq!(seen("ip fragoff"), [0, 0, 1, 0]);
        assert_eq!(seen("data[0:2]"), [0x3031, 0x5859]);
        assert_eq!(seen("transp[0]"), [0x12, 0, u32::from(b'z')]);
        assert_eq!(seen("ip{124:8}"), [0x40, 0x50, 0x60, 0x90]);
    }

    #[test]
    fn fields_may_be_put_behind_each_other() {
        let text = "FromIPSummaryDump(DATA \"!data ip_tos ip_ttl\n3 5\n\") -> AggregateIP(ip tos)
            -> a :: AggregateIP(ip ttl, INCREMENTAL true) -> out :: Collect";
        let mut bench = Bench::strict(crate::with_basics(), text);
        bench.run();
        assert_eq!(bench.take_packets("out")[0].cold.aggregate(), 0x0305);
        assert_eq!(
            ["header", "bit_offset", "bit_length"].map(|h| bench.read(&format!("a.{h}"))),
            ["ip", "64", "8"]
        );
    }
}
