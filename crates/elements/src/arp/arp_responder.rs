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
//! addresses leave by output 1, or are dropped (`other_address`). So do announcements, in which a station asks
//! for its own address (a reply would say that the address is in use), and requests from a zero or broadcast
//! Ethernet address. Other packets are dropped, too (`not_a_request`).
//!
//! Arguments, any number of:
//!
//! - `ENTRY`: addresses or prefixes, then the Ethernet address to answer with, separated by spaces: `192.0.2.1
//!   198.51.100.0/24 02:00:00:00:00:01`. With a prefix the element is a proxy for its addresses. A name that
//!   stands for both an IP and an Ethernet address may stand alone. The longest prefix decides.

use crate::prelude::*;
use arguments::units::FromArg;
use arguments::{Kind, Names};
use engine::publish::{Published, domain};
use std::net::Ipv4Addr;
use wire::{Arp, Ether, EtherAddr, Prefix4, arp, ether};

const OTHER_ADDRESS: u8 = 0;
const NOT_A_REQUEST: u8 = 1;
const OTHERS: u8 = 1;

/// The longest prefix first.
type Table = Vec<(Prefix4, EtherAddr)>;

pub(super) struct Config {
    table: Published<Table>,
}

pub(super) struct ArpResponder(Arc<Config>);

impl Element for ArpResponder {
    const CLASS: &'static str = "ARPResponder";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["replies", "others?"]);
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const DROPS: &'static [&'static str] = &["other_address", "not_a_request"];
    const READS_ANNOTATIONS: bool = true;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mut table = Table::new();
        for arg in args.rest("ENTRY", "addresses and an Ethernet address", "an entry") {
            match entries(&arg.words(), args.names()) {
                Ok(entries) => entries.into_iter().for_each(|e| put(&mut table, e)),
                Err(_) if args.names().has_mistake(&arg.raw) => {}
                Err(wrong) => args.error_with_help(
                    &arg,
                    wrong,
                    "write prefixes, then the Ethernet address: 10.0.0.1 02:00:00:00:00:01",
                ),
            }
        }
        Config {
            table: Published::new(domain(), table),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ArpResponder {
        ArpResponder(Arc::clone(config))
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let data = packet.data_mut();
        if data.get(12..14) != Some(&ether::ARP.to_be_bytes()) {
            return Verdict::drop(NOT_A_REQUEST);
        }
        let (head, body) = data.split_at_mut(ether::LEN);
        let mut request = match Arp::new_checked(body) {
            Ok(request) if request.op() == arp::REQUEST => request,
            _ => return Verdict::drop(NOT_A_REQUEST),
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
                let entries = entries(&words, &Names::default())?;
                config.table.update(|table| {
                    let mut table = Table::clone(table);
                    entries.into_iter().for_each(|e| put(&mut table, e));
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

/// Adds an entry, or changes the one of its prefix.
fn put(table: &mut Table, (net, mac): (Prefix4, EtherAddr)) {
    match table.iter_mut().find(|(n, _)| *n == net) {
        Some(entry) => entry.1 = mac,
        None => {
            let at = table.partition_point(|(n, _)| n.len() >= net.len());
            table.insert(at, (net, mac));
        }
    }
}

/// The entries that `IP/MASK ... ETH` stands for.
fn entries(words: &[String], names: &Names) -> Result<Table, String> {
    let Some((last, nets)) = words.split_last() else {
        return Err("the entry is empty".to_owned());
    };
    let mac = EtherAddr::from_arg(last, names).map_err(|wrong| format!("the last word {wrong}"))?;
    let both = nets.is_empty() && names.get(last, Kind::Ether).is_some();
    if nets.is_empty() && !both {
        return Err(format!("there is no address before `{last}`"));
    }
    let nets = if both { words } else { nets };
    let each = nets.iter().map(|word| {
        // A name may stand for an address and for its network: the address is meant.
        let host = Ipv4Addr::from_arg(word, names).map(|ip| Prefix4::new(ip, 32));
        let net = host.or_else(|_| Prefix4::from_arg(word, names));
        Ok((net.map_err(|wrong| format!("each address {wrong}"))?, mac))
    });
    each.collect()
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
    fn what_is_no_request_is_dropped_whatever_its_length() {
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
        assert!(refused("10.0.0.1").contains("the last word must be an Ethernet address"));
        assert!(refused(US).contains("there is no address before"));
        assert!(refused(&format!("10.0.0.1, ten {US}")).contains("each address must be an IPv4"));
    }
}
