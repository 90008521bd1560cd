//! Makes rewriters choose a pattern by protocol and destination port: port forwarding.
//!
//! A rewriter names this element as the specification of an input. A new flow gets the pattern of the first
//! service that it is for. Flows of other services are dropped by the rewriter, as `discarded`.
//!
//! ```click
//! services :: PortIPMapper(
//!     tcp 8080 - - 10.0.1.2 80 1 0,           // port 8080 outside is port 80 of 10.0.1.2
//!     udp 5000-5010 - - 10.0.1.3 - 1 0);      // these ports stay what they are
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, services) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Each argument is `PROTOCOL PORTS`, then a pattern and two outputs, as after `pattern` in IPRewriter. `PROTOCOL` is
//! `tcp` or `udp`, `PORTS` a port or a range. A last argument `pass OUTPUT` lets packets of other services leave
//! unchanged by this output. An empty argument has no effect.
//!
//! TCPRewriter takes only the services of TCP. UDPRewriter does not distinguish protocols: it uses the port alone.

use crate::prelude::*;
use nat::spec;

pub(super) struct PortIPMapper;

impl Element for PortIPMapper {
    const CONTRACT: Contract =
        Contract::new("PortIPMapper", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = ();

    fn configure(args: &mut Args) {
        if let Err(wrong) = spec::service_choices(args) {
            spec::report(args, wrong);
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> PortIPMapper {
        PortIPMapper
    }
}

#[cfg(test)]
mod tests {
    use crate::rewrite::testing::{bench, send};

    const SERVICES: &str = "services :: PortIPMapper(tcp 8080 - - 10.0.1.2 80 0 1,
            udp 5000-5010 - - 10.0.1.3 - 0 1, \"\", tcp http - - 10.0.1.4 - 0 1, pass 1);";

    #[test]
    fn services_are_told_apart_by_protocol_and_port() {
        let mut b = bench(
            &format!("{SERVICES} rw :: IPRewriter(services, drop)"),
            2,
            2,
        );
        for (from, to) in [
            ("T 9.9.9.9 7 192.0.2.1 8080", "out0 9.9.9.9 7 10.0.1.2 80"),
            ("T 10.0.1.2 80 9.9.9.9 7", "out1 192.0.2.1 8080 9.9.9.9 7"),
            ("U 9.9.9.9 7 192.0.2.1 5000", "out0 9.9.9.9 7 10.0.1.3 5000"),
            ("U 9.9.9.9 7 192.0.2.1 5010", "out0 9.9.9.9 7 10.0.1.3 5010"),
            ("T 9.9.9.9 7 192.0.2.1 80", "out0 9.9.9.9 7 10.0.1.4 80"),
            // Packets for other services pass.
            (
                "U 9.9.9.9 7 192.0.2.1 8080",
                "out1 9.9.9.9 7 192.0.2.1 8080",
            ),
            (
                "T 9.9.9.9 7 192.0.2.1 5000",
                "out1 9.9.9.9 7 192.0.2.1 5000",
            ),
            (
                "U 9.9.9.9 7 192.0.2.1 5011",
                "out1 9.9.9.9 7 192.0.2.1 5011",
            ),
        ] {
            // Replies come in by the other input.
            let input = usize::from(from.starts_with("T 10"));
            assert_eq!(send(&mut b, input, from), to, "{from}");
        }
        assert_eq!(b.read("rw.table_size"), "4");
    }

    #[test]
    fn without_a_service_new_flows_are_dropped() {
        let rewriter =
            "services :: PortIPMapper(tcp 8080 - - 10.0.1.2 80 0 1); rw :: IPRewriter(services)";
        let mut b = bench(rewriter, 1, 2);
        assert_eq!(send(&mut b, 0, "T 9.9.9.9 7 192.0.2.1 81"), "-");
        assert_eq!(b.drops("rw", "discarded"), 1);
        let mut b = bench("none :: PortIPMapper; rw :: TCPRewriter(none)", 1, 1);
        assert_eq!(send(&mut b, 0, "T 9.9.9.9 7 192.0.2.1 81"), "-");
    }

    #[test]
    fn mistakes_are_told_with_their_service() {
        for (arguments, wrong) in [
            (
                "icmp 8 - - 10.0.1.2 - 0 0",
                "service 0: `icmp` is neither tcp nor udp",
            ),
            (
                "tcp 9-8 - - 10.0.1.2 - 0 0",
                "service 0: `9-8` is no port and no range of ports",
            ),
            (
                "pass 0, tcp 8 - - 10.0.1.2 - 0 0",
                "service 0: write PROTOCOL PORTS",
            ),
            ("tcp 8 - - 10.0.1.2 - 0 0, pass x", "service 1: bad output"),
            ("tcp 8 x - 10.0.1.2 - 0 0", "service 0: bad source address"),
        ] {
            let errors = testkit::errors(crate::CLASSES, &format!("PortIPMapper({arguments})"));
            assert!(errors.contains(wrong), "{arguments}: {errors}");
        }
        let text = "m :: PortIPMapper(pass 3); Idle -> CheckIPHeader -> IPRewriter(m) -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("output port out of range"), "{errors}");
    }
}
