//! `conf/linux-mpls.click`: packets with labels.

use super::{Steered, TWIN, address, at, frame, host, on_both_of, onward, to4, to6, us};
use forwarding::{EXCEPTION, LOCAL, LabelHop, Member};
use testkit::Build;
use wire::mpls::Labels;

fn labels(of: &[u32]) -> Labels {
    Labels::new(of.iter().copied()).expect("room")
}

impl Steered {
    /// Sets the route of a label: by eth1 to 10.0.1.2 with others, or to some port.
    fn label(&self, label: u32, others: &[u32], port: Option<u16>) {
        let routes = self.kernel.labels().expect("the router uses them");
        let hop = LabelHop {
            labels: labels(others),
            gateway: port.is_none().then(|| address("10.0.1.2")),
            port: port.unwrap_or(self.eth[1].number()),
            weight: 1,
        };
        routes.set(label, Some(vec![hop]));
    }
}

fn on_both(test: impl Fn(&mut Steered)) {
    on_both_of("linux-mpls.click", |steered| {
        steered
            .eth
            .iter()
            .for_each(|eth| eth.set_takes_labels(true));
        test(steered);
    });
}

/// A frame with labels above the packet of another frame.
fn below(of: &[u32], ttl: u8, frame: &[u8]) -> Vec<u8> {
    let (head, packet) = frame.split_at(14);
    [
        &head[..12],
        &[0x88, 0x47],
        &testkit::mpls_below(of, ttl, packet),
    ]
    .concat()
}

/// Frame of the packet by port 1 to host 2, with the same time to live.
fn out(packet: &Build) -> Vec<u8> {
    packet.clone().ether(us(1), host(1, 2).to_string()).bytes()
}

#[test]
fn labels_are_swapped_and_popped_and_the_rest_goes_to_the_kernel_as_it_came() {
    on_both(|steered| {
        steered.label(100, &[200], None);
        steered.label(101, &[], None);
        steered.label(102, &[], Some(LOCAL));
        steered.label(103, &[], Some(EXCEPTION));
        let (four, six) = (to4("10.0.1.3"), to6("2001:db8:1::3"));
        for packet in [&four, &six] {
            let come = |labels: &[u32], ttl| below(labels, ttl, &frame(packet));
            let cases = [
                (come(&[100], 9), 1, below(&[200], 8, &out(packet))),
                (come(&[101], 200), 1, out(packet)),
                (come(&[102], 200), 1, onward(packet, 1, host(1, 3))),
                (come(&[103], 9), TWIN, come(&[103], 9)),
                (come(&[999], 9), TWIN, come(&[999], 9)),
            ];
            for (given, device, expected) in cases {
                // A packet whose labels were popped keeps its fields, except those that the label sets.
                let given = steered.send(0, &given);
                match given.as_slice() {
                    [(to, sent)] if *to == device && device == TWIN => assert_eq!(*sent, expected),
                    [(to, sent)] => {
                        assert_eq!(*to, device);
                        assert_eq!(sent[..18], expected[..18], "frame and label");
                        assert_eq!(sent.len(), expected.len());
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        // The router itself gets what was below its label as if it had come without.
        let own = to4("10.0.1.1");
        let given = below(&[102], 200, &frame(&own.clone().ttl(64)));
        assert_eq!(steered.send(0, &given), [(TWIN, frame(&own))]);
    });
}

#[test]
fn labels_are_dropped_where_the_kernel_takes_none() {
    on_both_of("linux-mpls.click", |steered| {
        steered.label(100, &[200], None);
        let given = below(&[100], 9, &frame(&to4("10.0.1.3")));
        assert_eq!(steered.send(0, &given), []);
        assert_eq!(steered.drops("not_allowed"), 1);
        steered.eth[0].set_takes_labels(true);
        assert_eq!(steered.send(0, &given).len(), 1);
    });
}

#[test]
fn routes_with_labels_put_them_on_and_the_kernel_answers_what_it_must() {
    on_both(|steered| {
        let hop = |gateway: &str| Member {
            labels: labels(&[300, 200]),
            ..steered.hop(1, Some(gateway))
        };
        let (four, six) = (hop("10.0.1.2"), hop("2001:db8:1::2"));
        steered.route("198.51.100.0/24", &[four]);
        steered.route("2001:db8:ffff::/48", &[six]);
        for packet in [to4("198.51.100.7"), to6("2001:db8:ffff::7")] {
            let labelled = below(&[300, 200], 63, &out(&packet.clone().ttl(63)));
            assert_eq!(steered.send(0, &frame(&packet)), [(1, labelled)]);
            // The last hop, and one byte too many with the labels: ICMP is the kernel's.
            let long = packet.clone().payload_len(1465);
            for up in [packet.clone().ttl(1), long] {
                let up = frame(&up);
                assert_eq!(steered.send(0, &up), [(TWIN, up)]);
            }
        }
        // A packet with a link-local address stays on its link, whatever the route.
        let up = frame(&to6("2001:db8:ffff::7").src("fe80::2"));
        assert_eq!(steered.send(0, &up), [(TWIN, up)]);
        // Other exceptions pass by.
        steered.route("203.0.113.0/24", &[at(EXCEPTION)]);
        let up = frame(&to4("203.0.113.1"));
        assert_eq!(steered.send(0, &up), [(TWIN, up)]);
    });
}
