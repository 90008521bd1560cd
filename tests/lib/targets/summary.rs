//! IP summary dumps: any bytes become packets or are skipped, and any packet is written.

use testkit::Bench;

/// All fields, some of which overlap when they are read.
const FIELDS: &str = "timestamp ntimestamp first_timestamp ts_sec ts_usec ts_usec1 ip_src ip_dst \
    ip_frag ip_fragoff ip_len ip_proto ip_hl ip_id ip_tos ip_dscp ip_ecn ip_ttl ip_sum ip_opt sport \
    dport tcp_seq tcp_ack tcp_off tcp_flags tcp_opt tcp_ntopt tcp_sack tcp_window tcp_urp udp_len \
    icmp_type icmp_code icmp_type_name icmp_code_name icmp_flowid icmp_seq icmp_nextmtu payload \
    payload_len payload_md5 payload_md5_hex ip_capture_len count direction link aggregate eth_src \
    eth_dst wire_len";

/// Reads bytes as a dump, or as a packet, by the first byte, and writes the resulting packets.
pub fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let tail = format!(
        "ToIPSummaryDump(/dev/null, FIELDS {FIELDS}, BAD_PACKETS true) -> \
         IPPrint(OUTFILE /dev/null, PAYLOAD HEX) -> \
         ToIPSummaryDump(/dev/null, FIELDS timestamp ip_opt tcp_opt tcp_ntopt tcp_sack payload_md5 eth_src, \
         BINARY true) -> Discard"
    );
    if choice & 1 == 0 {
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let checksum = choice & 2 != 0;
        let text = format!(
            "FromIPSummaryDump(DATA \\<{hex}>, FIELDS {FIELDS}, CHECKSUM {checksum}) -> {tail}"
        );
        Bench::new(classes::all(), &text).run();
    } else {
        let text = format!("m :: MarkIPHeader(0) -> {tail}");
        Bench::new(classes::all(), &text).push("m", &[data]);
    }
}
