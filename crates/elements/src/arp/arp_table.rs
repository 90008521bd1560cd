//! A table of neighbours for several ARPQueriers.
//!
//! ```click
//! t :: ARPTable(CAPACITY 100);
//! FromDevice(eth0) -> Strip(14) -> CheckIPHeader
//!     -> q :: ARPQuerier(192.0.2.1, 02:00:00:00:00:01, TABLE t) -> Discard;
//! Idle -> [1]q;
//! ```
//!
//! A neighbour that one ARPQuerier learns is known to the others, too. Packets wait in the ARPQuerier at which they
//! arrived.
//!
//! Keyword arguments:
//!
//! - `CAPACITY`: maximum number of waiting packets in each ARPQuerier. Default 2048; 0 = 1048576.
//! - `ENTRY_CAPACITY`: neighbours in the table; 0 = 65536. Default 4096.
//! - `ENTRY_PACKET_CAPACITY`: maximum number of packets that wait for one neighbour, on each worker; 0 = no separate
//!   limit. Default 0.
//! - `CAPACITY_SLIM_FACTOR`: when too many packets wait, one of this number is dropped. Default 2.
//! - `TIMEOUT`: time for which an entry is kept without an answer; 0 = for ever. Default 5 minutes.

use super::table::{self, QueryPolicy};
use crate::prelude::*;
use forwarding::neighbour::Link;
use std::time::Duration;

pub(super) struct ArpTable(Arc<Config>);

pub(super) struct Config {
    pub(super) link: Arc<Link<u32>>,
}

impl Element for ArpTable {
    const CONTRACT: Contract = Contract::new("ARPTable", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let bounds = table::bounds(args, QueryPolicy::Unlimited, Duration::from_secs(60));
        Config {
            link: Arc::new(Link::new(bounds, crate::secret(cfg!(test)))),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> ArpTable {
        config.link.set_now(init.now);
        ArpTable(Arc::clone(config))
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.link = Link::inherit(&config.link, &old.link);
    }

    const HANDLERS: &'static [Handler<ArpTable>] = &[
        Handler::ask(
            "table",
            "a line per neighbour: address, whether it is known, Ethernet address, age in seconds",
            |e, _| e.now(|link| Ok(table::show(link))),
        ),
        Handler::shared(
            "drops",
            "packets that were given up",
            |config: &Config, _| Ok(config.link.drops().to_string()),
        ),
        Handler::ask("count", "neighbours in the table", |e, _| {
            e.now(|link| Ok(link.table().len().to_string()))
        }),
        Handler::shared("length", "packets that wait", |config: &Config, _| {
            Ok(config.link.waiting().to_string())
        }),
        Handler::run("insert", "`IP ETH`: makes an entry", |e, value| {
            let value = value.to_owned();
            e.now(move |link| table::insert(link, &value))
        }),
        Handler::action(
            "delete",
            "`IP`: removes an entry",
            |config: &Config, value| table::delete(&config.link, value),
        ),
        Handler::action("clear", "removes all entries", |config: &Config, _| {
            table::clear(&config.link)
        }),
    ];
}

impl ArpTable {
    /// Job for a handler that needs the current time, which this element does not get from packets.
    fn now(&self, work: impl FnOnce(&Link<u32>) -> Result<String, String> + 'static) -> Job {
        let config = Arc::clone(&self.0);
        Box::new(move |cx| {
            config.link.catch_up(cx.now());
            work(&config.link)
        })
    }
}

impl Resources for ArpTable {
    fn memory(config: &Config) -> usize {
        config.link.memory()
    }
}

#[cfg(test)]
mod tests {
    use engine::packet::Packet;
    use std::time::Duration;
    use testkit::{Bench, arp_reply};

    const TWO: &str = "t :: ARPTable(TIMEOUT 10, CAPACITY 3);
        p :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, TABLE t) -> a :: Collect; p[1] -> asked :: Collect;
        q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, TABLE t) -> b :: Collect; q[1] -> asked";

    fn send(bench: &mut Bench, querier: &str) {
        let mut packet = Packet::from_bytes(b"x").expect("it fits");
        packet.anno_mut().set_dst4([1, 0, 0, 2]);
        bench.push_packets(querier, 0, [packet].into_iter().collect());
    }

    #[test]
    fn neighbours_learnt_by_one_querier_are_known_to_the_other() {
        let mut bench = Bench::new(crate::CLASSES, TWO);
        send(&mut bench, "p");
        assert_eq!(
            (bench.read("t.length"), bench.read("t.count")),
            ("1".into(), "1".into())
        );
        bench.push_at(
            "p",
            1,
            &[arp_reply(
                "2:0:0:0:0:2",
                "1.0.0.2",
                "2:0:0:0:0:1",
                "1.0.0.1",
            )],
        );
        send(&mut bench, "q");
        assert_eq!((bench.take("a").len(), bench.take("b").len()), (1, 1));
        assert_eq!(bench.take("asked").len(), 1);
        assert!(
            bench
                .read("q.table")
                .starts_with("1.0.0.2 1 02-00-00-00-00-02 ")
        );
        assert_eq!(bench.read("t.length"), "0");
    }

    #[test]
    fn entries_by_hand_time_out_like_others() {
        let mut bench = Bench::new(crate::CLASSES, TWO);
        bench.write("t.insert", "1.0.0.2 2:0:0:0:0:2");
        send(&mut bench, "q");
        assert_eq!(bench.take("b").len(), 1);
        bench.advance(Duration::from_secs(11));
        send(&mut bench, "q");
        assert!(bench.take("b").is_empty());
        assert_eq!(bench.take("asked").len(), 1);
        bench.write("t.clear", "");
        assert_eq!(
            (bench.read("t.table"), bench.read("q.count")),
            (String::new(), "0".into())
        );
    }

    #[test]
    fn an_unused_table_knows_the_time() {
        let mut bench = Bench::new(crate::CLASSES, "t :: ARPTable(TIMEOUT 10)");
        bench.write("t.insert", "1.0.0.2 2:0:0:0:0:2");
        bench.advance(Duration::from_secs(4));
        bench.write("t.insert", "1.0.0.3 2:0:0:0:0:3");
        assert_eq!(
            bench.read("t.table"),
            "1.0.0.3 1 02-00-00-00-00-03 0.000000\n1.0.0.2 1 02-00-00-00-00-02 4.000000\n"
        );
        bench.advance(Duration::from_secs(7));
        assert_eq!(bench.read("t.count"), "1");
        assert_eq!(
            bench.read("t.table"),
            "1.0.0.3 1 02-00-00-00-00-03 7.000000\n"
        );
    }

    #[test]
    fn too_many_waiting_packets_are_halved_and_counted() {
        let mut bench = Bench::new(crate::CLASSES, TWO);
        (0..4).for_each(|_| send(&mut bench, "q"));
        assert_eq!(
            (bench.read("t.length"), bench.read("t.drops")),
            ("2".into(), "2".into())
        );
    }

    #[test]
    fn table_argument_must_be_an_arp_table() {
        let text =
            "Idle -> q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, TABLE d) -> d :: Discard; Idle -> [1]q";
        assert!(testkit::errors(crate::CLASSES, text).contains("TABLE"));
    }
}
