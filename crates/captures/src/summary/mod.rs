//! The IP summary dump: one line (or binary record) per packet, fields named in a `!data` line.
//!
//! [`Field`] is the content of a column. Reading a line gives a [`Record`](record::Record), from which [`build`] makes
//! a packet; [`field_text`] writes the fields of a packet. Options have a file for each layer. Nothing here does I/O.

pub mod binary;
pub mod build;
mod digest;
pub mod field_text;
mod ip_options;
mod names;
mod options;
pub mod reader;
pub mod record;
mod tcp_options;
#[cfg(test)]
mod tests;

/// A column of a dump. [`Field::find`] has the names.
#[expect(missing_docs, reason = "the table of names says what each is")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Timestamp(Stamp),
    FirstTimestamp(Stamp),
    TsSec,
    TsUsec,
    TsUsec1,
    IpSrc,
    IpDst,
    IpFrag,
    IpFragoff,
    IpLen,
    IpProto,
    IpHl,
    IpId,
    IpTos,
    IpDscp,
    IpEcn,
    IpTtl,
    IpSum,
    IpOpt,
    Sport,
    Dport,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpOpt,
    TcpNtopt,
    TcpSack,
    TcpWindow,
    TcpUrp,
    UdpLen,
    IcmpType,
    IcmpCode,
    IcmpTypeName,
    IcmpCodeName,
    IcmpFlowid,
    IcmpSeq,
    IcmpNextmtu,
    Payload,
    PayloadLen,
    PayloadMd5,
    PayloadMd5Hex,
    IpCaptureLen,
    Count,
    Direction,
    Link,
    Paint,
    Aggregate,
    EthSrc,
    EthDst,
    EthType,
    WireLen,
}

/// Precision of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Microseconds, or as text nanoseconds where microseconds are not exact.
    Exact,
    /// Microseconds.
    Micro,
    /// Nanoseconds.
    Nano,
}

impl Stamp {
    /// Nanoseconds in a unit of a binary record.
    fn unit(self) -> u32 {
        if self == Stamp::Nano { 1 } else { 1000 }
    }
}

/// Size of a field in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This number of bytes.
    Bytes(usize),
    /// A length byte and that many bytes.
    Counted,
    /// No binary form.
    None,
}

use Field as F;
use Size::{Bytes, Counted};

/// Every field: its name, the names of older dumps and short ones, its binary form.
#[rustfmt::skip]
const FIELDS: &[(Field, &str, &[&str], Size)] = &[
    (F::Timestamp(Stamp::Exact), "timestamp", &["ts"], Bytes(8)),
    (F::Timestamp(Stamp::Micro), "utimestamp", &[], Bytes(8)),
    (F::Timestamp(Stamp::Nano), "ntimestamp", &[], Bytes(8)),
    (F::FirstTimestamp(Stamp::Exact), "first_timestamp", &["first_ts"], Bytes(8)),
    (F::FirstTimestamp(Stamp::Micro), "first_utimestamp", &[], Bytes(8)),
    (F::FirstTimestamp(Stamp::Nano), "first_ntimestamp", &[], Bytes(8)),
    (F::TsSec, "ts_sec", &["sec"], Bytes(4)),
    (F::TsUsec, "ts_usec", &["usec"], Bytes(4)),
    (F::TsUsec1, "ts_usec1", &["usec1"], Bytes(8)),
    (F::IpSrc, "ip_src", &["src"], Bytes(4)),
    (F::IpDst, "ip_dst", &["dst"], Bytes(4)),
    (F::IpFrag, "ip_frag", &["frag"], Bytes(1)),
    (F::IpFragoff, "ip_fragoff", &["fragoff"], Bytes(2)),
    (F::IpLen, "ip_len", &["len", "length"], Bytes(4)),
    (F::IpProto, "ip_proto", &["proto", "ip_p"], Bytes(1)),
    (F::IpHl, "ip_hl", &[], Bytes(1)),
    (F::IpId, "ip_id", &["id"], Bytes(2)),
    (F::IpTos, "ip_tos", &["tos"], Bytes(1)),
    (F::IpDscp, "ip_dscp", &["dscp"], Bytes(1)),
    (F::IpEcn, "ip_ecn", &["ecn"], Bytes(1)),
    (F::IpTtl, "ip_ttl", &["ttl"], Bytes(1)),
    (F::IpSum, "ip_sum", &[], Bytes(2)),
    (F::IpOpt, "ip_opt", &[], Counted),
    (F::Sport, "sport", &["ip_sport", "tcp_sport", "udp_sport"], Bytes(2)),
    (F::Dport, "dport", &["ip_dport", "tcp_dport", "udp_dport"], Bytes(2)),
    (F::TcpSeq, "tcp_seq", &["tcp_seqno", "seq"], Bytes(4)),
    (F::TcpAck, "tcp_ack", &["tcp_ackno", "ack"], Bytes(4)),
    (F::TcpOff, "tcp_off", &[], Bytes(1)),
    (F::TcpFlags, "tcp_flags", &["flags"], Bytes(1)),
    (F::TcpOpt, "tcp_opt", &[], Counted),
    (F::TcpNtopt, "tcp_ntopt", &[], Counted),
    (F::TcpSack, "tcp_sack", &["sack"], Counted),
    (F::TcpWindow, "tcp_window", &["tcp_win", "window", "win"], Bytes(2)),
    (F::TcpUrp, "tcp_urp", &["urp"], Bytes(2)),
    (F::UdpLen, "udp_len", &[], Bytes(4)),
    (F::IcmpType, "icmp_type", &[], Bytes(1)),
    (F::IcmpCode, "icmp_code", &[], Bytes(1)),
    (F::IcmpTypeName, "icmp_type_name", &[], Bytes(1)),
    (F::IcmpCodeName, "icmp_code_name", &[], Bytes(1)),
    (F::IcmpFlowid, "icmp_flowid", &["icmp_id"], Bytes(2)),
    (F::IcmpSeq, "icmp_seq", &["icmp_seqno"], Bytes(2)),
    (F::IcmpNextmtu, "icmp_nextmtu", &[], Bytes(2)),
    (F::Payload, "payload", &[], Size::None),
    (F::PayloadLen, "payload_len", &["payload_length"], Bytes(4)),
    (F::PayloadMd5, "payload_md5", &[], Bytes(16)),
    (F::PayloadMd5Hex, "payload_md5_hex", &[], Bytes(16)),
    (F::IpCaptureLen, "ip_capture_len", &["capture_len"], Bytes(4)),
    (F::Count, "count", &["pkt_count", "packets"], Bytes(4)),
    (F::Direction, "direction", &[], Bytes(1)),
    (F::Link, "link", &[], Bytes(1)),
    (F::Paint, "paint", &[], Bytes(1)),
    (F::Aggregate, "aggregate", &["agg"], Bytes(4)),
    (F::EthSrc, "eth_src", &["ether_src", "ethernet_src"], Bytes(6)),
    (F::EthDst, "eth_dst", &["ether_dst", "ethernet_dst"], Bytes(6)),
    (F::EthType, "eth_type", &["ether_type"], Bytes(2)),
    (F::WireLen, "wire_len", &[], Bytes(4)),
];

impl Field {
    /// The field of a name; spaces may stand for underscores.
    pub fn find(name: &str) -> Option<Field> {
        let name = name.trim().replace(' ', "_");
        let row = FIELDS
            .iter()
            .find(|row| row.1 == name || row.2.contains(&name.as_str()))?;
        Some(row.0)
    }

    fn row(self) -> &'static (Field, &'static str, &'static [&'static str], Size) {
        FIELDS
            .iter()
            .find(|row| row.0 == self)
            .expect("the table lists every field")
    }

    /// The name in a `!data` line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Size of its binary form.
    pub fn size(self) -> Size {
        self.row().3
    }
}
