//! Answers ARP requests for given addresses (RFC 826).
//!
//! ```click
//! FromDevice(eth0)
//!     -> c :: Classifier(12/0806 20/0001, -);
//! c[0] -> ARPResponder(192.0.2.1 02:00:00:00:00:01)
//!     -> Queue -> ToDevice(eth0);
//! c[1] -> Discard;
//! ```
//!
//! The input takes ARP requests with their Ethernet headers. Each request becomes the reply. Requests for other
//! addresses leave by output 1, or are dropped (`other_address`). So do announcements, in which a station requests
//! its own address (a reply would say that the address is in use), and requests from a zero or broadcast Ethernet
//! address. Other packets are dropped, too (`not_a_request`).
//!
//! Arguments, any number of:
//!
//! - `ENTRY`: addresses or prefixes, and the Ethernet address to answer with, separated by spaces: `192.0.2.1
//!   198.51.100.0/24 02:00:00:00:00:01`. With a prefix the element is a proxy for its addresses. A name that stands
//!   for both an IP and an Ethernet address may stand alone. The longest prefix decides; for an address that is given
//!   twice, the last entry. (`ashlar click` keeps the entries in Click's order, and the first match decides.)

use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use engine::publish::{Published, domain};
use lang::Severity;
use std::net::Ipv4Addr;
use wire::{Arp, Ether, EtherAddr, Prefix4, arp, ether};

drops! {
    OTHER_ADDRESS = "other_address",
    NOT_A_REQUEST = "not_a_request",
}
const OTHERS: u8 = 1;

type Entry = (Prefix4, EtherAddr);

/// Entries in order; the first entry whose prefix contains an address applies.
type Table = Vec<Entry>;

/// Position of a new entry.
#[derive(Clone, Copy)]
enum Order {
    /// Sorted by prefix length, longest first.
    Longest,
    /// Click's order: after all others, but before trailing entries whose prefix contains the new address.
    Click,
}

/// Error in an entry.
struct Wrong {
    click: &'static str,
    text: String,
}

pub(super) struct Config {
    order: Order,
    table: Published<Table>,
}

pub(super) struct ArpResponder(Arc<Config>);

impl Element for ArpResponder {
    const CONTRACT: Contract = Contract::new("ARPResponder", manual!())
        .ports(Ports::new(&["in"], &["replies", "others?"]))
        .needs(&[Facts::ETHER])
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mut table = Table::new();
        let order = Order::of(args.as_click);
        let given = args.rest("ENTRY", "addresses and an Ethernet address", "an entry");
        for (number, arg) in given.iter().enumerate() {
            match entries(&arg.words(), args.names()) {
                Ok(entries) => {
                    for entry in entries {
                        if order.put(&mut table, entry) {
                            let twice = format!("multiple entries for {}", entry.0);
                            args.report(Severity::Warning, twice);
                        }
                    }
                }
                Err(_) if args.names().has_mistake(&arg.raw) => {}
                Err(Wrong { click, text }) => {
                    args.error_as(arg, text, format!("argument {number}: {click}"));
                }
            }
        }
        Config {
            order,
            table: Published::new(domain(), table),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ArpResponder {
        ArpResponder(Arc::clone(config))
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let data = packet.data_mut();
        if data.get(12..14) != Some(&ether::ARP.to_be_bytes()) {
            return Verdict::reject(NOT_A_REQUEST, OTHERS);
        }
        let (head, body) = data.split_at_mut(ether::LEN);
        let mut request = match Arp::new_checked(body) {
            Ok(request) if request.op() == arp::REQUEST => request,
            _ => return Verdict::reject(NOT_A_REQUEST, OTHERS),
        };
        let (asker, ip) = (request.sender_ether(), request.target_ip());
        let nobody = matches!(asker, EtherAddr::ZERO | EtherAddr::BROADCAST);
        if ip == request.sender_ip() || nobody {
            return Verdict::reject(OTHER_ADDRESS, OTHERS);
        }
        let Some(mac) = find(self.0.table.read(cx.reader()), ip) else {
            return Verdict::reject(OTHER_ADDRESS, OTHERS);
        };
        request.answer(mac);
        let mut head = Ether::new_unchecked(head);
        head.set_dst(asker);
        head.set_src(mac);
        // The reply drops the padding and annotations of the request, except for the VLAN.
        packet.truncate(ether::LEN + arp::LEN);
        let tci = packet.vlan_tci();
        let cold = packet.cold_mut();
        (cold.user, cold.timestamp, cold.extra) = ([0; 48], 0, 0);
        packet.set_vlan_tci(tci);
        let anno = packet.anno_mut();
        anno.paint = 0;
        anno.set_dst4([0; 4]);
        packet.set_mac_here();
        Verdict::ON
    }

    const HANDLERS: &'static [Handler<ArpResponder>] = &[
        Handler::shared("table", "one entry per line", |config: &Config, _| {
            let table = config.table.snapshot();
            let lines = table
                .iter()
                .map(|(net, mac)| format!("{net} {}\n", mac.dashed()));
            Ok(lines.collect())
        }),
        Handler::shared(
            "lookup",
            "`IP`: the Ethernet address for it",
            |config: &Config, value| {
                let ip: Ipv4Addr = arguments::units::parse(value)?;
                let found = find(&config.table.snapshot(), ip);
                Ok(found
                    .map(|mac| mac.dashed().to_string())
                    .unwrap_or_default())
            },
        ),
        Handler::action(
            "add",
            "adds an entry, written as in ENTRY",
            |config: &Config, value| {
                let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                let entries =
                    entries(&words, &arguments::names_of_call()).map_err(|wrong| wrong.text)?;
                config.table.update(|table| {
                    let mut table = Table::clone(table);
                    for entry in &entries {
                        config.order.put(&mut table, *entry);
                    }
                    Arc::new(table)
                });
                Ok(String::new())
            },
        ),
        Handler::action(
            "remove",
            "`IP/MASK`: removes its entry",
            |config: &Config, value| {
                let net: Prefix4 = arguments::units::parse(value)?;
                let mut removed = false;
                config.table.update(|table| {
                    let kept: Table = table.iter().copied().filter(|(n, _)| *n != net).collect();
                    removed = kept.len() < table.len();
                    Arc::new(kept)
                });
                match removed {
                    true => Ok(String::new()),
                    false => Err(format!("there is no entry for {net}")),
                }
            },
        ),
    ];
}

fn find(table: &Table, ip: Ipv4Addr) -> Option<EtherAddr> {
    table.iter().find(|(net, _)| net.contains(ip)).map(|e| e.1)
}

impl Order {
    fn of(as_click: bool) -> Order {
        if as_click {
            Order::Click
        } else {
            Order::Longest
        }
    }

    /// Adds an entry, or replaces the one of the same prefix. Returns true if there was one.
    fn put(self, table: &mut Table, (net, mac): Entry) -> bool {
        let found = match self {
            Order::Longest => table.iter().position(|(n, _)| *n == net),
            Order::Click => click_place(table, net)
                .checked_sub(1)
                .filter(|&at| table[at].0 == net),
        };
        if let Some(at) = found {
            table[at].1 = mac;
            return true;
        }
        let at = match self {
            Order::Longest => table.partition_point(|(n, _)| n.len() >= net.len()),
            Order::Click => click_place(table, net),
        };
        table.insert(at, (net, mac));
        false
    }
}

/// Index at which Click inserts a prefix.
fn click_place(table: &Table, net: Prefix4) -> usize {
    let holds = |(n, _): &&Entry| n.contains(net.addr()) && n.addr() != net.addr();
    table.len() - table.iter().rev().take_while(holds).count()
}

/// Parses entries `IP/MASK ... ETH`, in any order. A name may stand for both; an explicit Ethernet address takes
/// precedence.
fn entries(words: &[String], names: &Names) -> Result<Table, Wrong> {
    let (mut nets, mut mac, mut name_mac) = (Vec::new(), None, None);
    for word in words {
        // A name with both an address and a network stands for the address.
        let host = Ipv4Addr::from_arg(word, names).map(|ip| Prefix4::new(ip, 32));
        let net = host.or_else(|_| Prefix4::from_arg(word, names)).ok();
        let ether = EtherAddr::from_arg(word, names).ok();
        match (net, ether) {
            (None, None) => {
                return Err(Wrong {
                    click: "expected IP/MASK ETH",
                    text: format!("`{word}` is no IPv4 address or prefix and no Ethernet address"),
                });
            }
            (None, Some(_)) if mac.is_some() => {
                return Err(Wrong {
                    click: "more than one ETH",
                    text: "there are two Ethernet addresses".to_owned(),
                });
            }
            (None, Some(_)) => mac = ether,
            (Some(net), ether) => {
                nets.push(net);
                name_mac = name_mac.or(ether);
            }
        }
    }
    let mac = mac.or(name_mac);
    if nets.is_empty() && words.is_empty() {
        return Ok(Table::new());
    }
    if nets.is_empty() {
        return Err(Wrong {
            click: "missing IP/MASK",
            text: "there is no address: write 10.0.0.1 02:00:00:00:00:01".to_owned(),
        });
    }
    let Some(mac) = mac else {
        return Err(Wrong {
            click: "missing ETH",
            text: "there is no Ethernet address: write 10.0.0.1 02:00:00:00:00:01".to_owned(),
        });
    };
    Ok(nets.into_iter().map(|net| (net, mac)).collect())
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, arp_reply, arp_request};

    const US: &str = "02:00:00:00:00:01";
    const A: &str = "02:00:00:00:00:0a";

    #[test]
    fn requests_for_us_become_replies() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("r :: ARPResponder(10.0.0.1 10.5/16 {US}) -> out :: Collect"),
        );
        let asked = ["10.0.0.1", "10.5.6.7", "10.0.0.2"];
        bench.push("r", &asked.map(|ip| arp_request(A, "10.0.0.9", ip)));
        let reply = |ip| arp_reply(US, ip, A, "10.0.0.9");
        assert_eq!(bench.take("out"), [reply("10.0.0.1"), reply("10.5.6.7")]);
        assert_eq!(bench.drops("r", "other_address"), 1);
    }

    #[test]
    fn replies_are_new_packets_without_padding_and_annotations() {
        let text = format!(
            "p :: Paint(5) -> SetIPAddress(1.2.3.4) -> ARPResponder(10.0.0.1 {US}) -> out :: Collect"
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        let mut padded = arp_request(A, "10.0.0.9", "10.0.0.1");
        padded.extend([0; 18]);
        bench.push("p", &[padded]);
        let out = bench.take_packets("out").remove(0);
        assert_eq!(out.bytes, arp_reply(US, "10.0.0.1", A, "10.0.0.9"));
        assert_eq!((out.anno.paint, out.anno.dst4()), (0, [0; 4]));
    }

    #[test]
    fn probes_are_answered_and_announcements_are_not() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("r :: ARPResponder(10.0.0.0/8 {US}) -> out :: Collect; r[1] -> o :: Collect"),
        );
        let announcement = arp_request(A, "10.0.0.1", "10.0.0.1");
        bench.push(
            "r",
            &[arp_request(A, "0.0.0.0", "10.0.0.1"), announcement.clone()],
        );
        assert_eq!(bench.take("out"), [arp_reply(US, "10.0.0.1", A, "0.0.0.0")]);
        assert_eq!(bench.take("o"), [announcement]);
    }

    #[test]
    fn a_group_of_stations_is_answered_and_nobody_is_not() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("r :: ARPResponder(10.0.0.1 {US}) -> out :: Collect"),
        );
        let askers = ["1:1:1:1:1:1", "0:0:0:0:0:0", "ff:ff:ff:ff:ff:ff"];
        bench.push(
            "r",
            &askers.map(|asker| arp_request(asker, "10.0.0.9", "10.0.0.1")),
        );
        let reply = arp_reply(US, "10.0.0.1", askers[0], "10.0.0.9");
        assert_eq!(bench.take("out"), [reply]);
        assert_eq!(bench.drops("r", "other_address"), 2);
    }

    #[test]
    fn non_requests_of_any_length_are_dropped() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!("r :: ARPResponder(10.0.0.1 {US}) -> out :: Collect"),
        );
        let request = arp_request(A, "10.0.0.9", "10.0.0.1");
        let cut: Vec<&[u8]> = (0..42).map(|len| &request[..len]).collect();
        bench.push("r", &cut);
        bench.push("r", &[arp_reply(A, "10.0.0.9", US, "10.0.0.1")]);
        assert_eq!(bench.drops("r", "not_a_request"), 43);
    }

    #[test]
    fn the_table_changes_at_run_time_and_the_longest_prefix_counts() {
        let mut bench = Bench::new(
            crate::CLASSES,
            &format!(
                "AddressInfo(a 1.0.0.2/24 00:01:02:03:04:05, b {US});
                 r :: ARPResponder(a:ipnet b:eth, a) -> Discard"
            ),
        );
        assert_eq!(
            bench.read("r.table"),
            "1.0.0.2/32 00-01-02-03-04-05\n1.0.0.0/24 02-00-00-00-00-01\n"
        );
        let lookup = |bench: &mut Bench, ip| bench.try_read("r.lookup", ip).expect("an address");
        assert_eq!(lookup(&mut bench, "1.0.0.2"), "00-01-02-03-04-05");
        assert_eq!(lookup(&mut bench, "1.0.0.1"), "02-00-00-00-00-01");
        assert_eq!(lookup(&mut bench, "2.0.0.1"), "");
        bench.write("r.remove", "1.0.0.2");
        assert_eq!(lookup(&mut bench, "1.0.0.2"), "02-00-00-00-00-01");
        assert!(bench.try_write("r.remove", "1.0.0.2").is_err());
        bench.write("r.add", "1.0.0.0/24 2.0.0.0/8 02:00:00:00:00:02");
        assert_eq!(lookup(&mut bench, "1.0.0.2"), "02-00-00-00-00-02");
        assert!(bench.try_write("r.add", "1.0.0.0/24").is_err());
    }

    #[test]
    fn entries_written_wrong_are_refused() {
        let refused = |entry: &str| {
            let text = format!("Idle -> ARPResponder({entry}) -> Discard");
            testkit::errors(crate::CLASSES, &text)
        };
        assert!(refused("10.0.0.1").contains("there is no Ethernet address"));
        assert!(refused(US).contains("there is no address"));
        assert!(refused(&format!("10.0.0.1 {US} {A}")).contains("two Ethernet addresses"));
        assert!(refused(&format!("10.0.0.1 {US}, ten {US}")).contains("`ten` is no IPv4"));
    }

    #[test]
    fn names_stand_for_any_kind_of_word_and_words_come_in_any_order() {
        let text = |entries: &str| {
            format!(
                "AddressInfo(a 1.0.0.2/24 00:01:02:03:04:05, b 2.0.0.2 00:01:02:03:04:06,
                   c 00:01:02:03:04:07);
                 r :: ARPResponder({entries}) -> Discard"
            )
        };
        for (entries, table) in [
            (
                "a b",
                "1.0.0.2/32 00-01-02-03-04-05\n2.0.0.2/32 00-01-02-03-04-05\n",
            ),
            ("c a:ipnet", "1.0.0.0/24 00-01-02-03-04-07\n"),
            ("a:eth b", "2.0.0.2/32 00-01-02-03-04-05\n"),
            ("b c", "2.0.0.2/32 00-01-02-03-04-07\n"),
            ("a:gw c", "1.0.0.1/32 00-01-02-03-04-07\n"),
        ] {
            let mut bench = Bench::new(crate::CLASSES, &text(entries));
            assert_eq!(bench.read("r.table"), table, "{entries}");
        }
    }

    #[test]
    fn entries_stand_in_clicks_order_when_the_router_is_to_run_as_click() {
        let mac = |last: u8| format!("0:0:0:0:0:{last}");
        let shown = |entries: &[&str]| {
            let list: Vec<String> = (1..)
                .zip(entries)
                .map(|(i, e)| format!("{e} {}", mac(i)))
                .collect();
            let text = format!("r :: ARPResponder({}) -> Discard", list.join(", "));
            let mut bench = Bench::click(crate::CLASSES, &text);
            bench
                .read("r.table")
                .replace("00-00-00-00-00-0", "")
                .replace('\n', ", ")
        };
        assert_eq!(shown(&["1.0.0.1", "1.0.0.1"]), "1.0.0.1/32 2, ");
        assert_eq!(
            shown(&["1.0.0.2", "1.0.0.1", "1.0.0.2"]),
            "1.0.0.2/32 1, 1.0.0.1/32 2, 1.0.0.2/32 3, "
        );
        assert_eq!(
            shown(&["1.0.0.0/8", "1.0.0.0/16", "1.0.0.1", "1.1.0.0/16"]),
            "1.0.0.1/32 3, 1.0.0.0/8 1, 1.0.0.0/16 2, 1.1.0.0/16 4, "
        );
    }
}
