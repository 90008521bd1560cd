//! Back ends of a balancer: ordinary routers that together act as one.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01 10.255.0.11, r2 02:00:00:00:00:02 10.255.0.12 WEIGHT 2,
//!     OWN 10.0.1.1 10.0.2.1, SPEAKER r1 r2, INSIDE 10.255.0.0/24);
//! FromDevice(null:64) -> in :: BalanceIn(lb) -> ToDevice(null:);
//! in[1] -> Discard;
//! ```
//!
//! BalancePool moves no packets. BalanceIn sends packets to the back ends, BalanceHealth probes them, and both name
//! this element. Each flow belongs to one of 65536 buckets. Rendezvous hashing gives each bucket an owner, by the
//! names and weights of the back ends that are up and used. So balancers with the same back ends agree without
//! messages.
//!
//! A bucket of a back end that goes down has a new owner at once. After any other change (a back end is drained,
//! comes back, or has another weight) a bucket moves when it had no packet for IDLE, so that nothing is reordered,
//! and at the latest after DEADLINE. A later change sets the deadline of all buckets that still have to move. When
//! the configuration is replaced, buckets stay where they are, and move in the same way.
//!
//! Packets to the router's own addresses, and multicast and broadcast packets, go to the speaker: the first back end
//! of SPEAKER that is up and used.
//!
//! Arguments, any number of:
//!
//! - `BACKEND`: its name, the Ethernet address of its port, its IPv4 address on the back network (for BalanceHealth),
//!   and `WEIGHT n`, 1 to 10000. The default weight is 1.
//!
//! Keyword arguments:
//!
//! - `ALGORITHM`: default `flows`.
//!   - `flows` keeps flows in order.
//!   - `least-loaded` does, too. In each second some buckets leave the back ends that were sent more bytes than their
//!     weights say, for those with less; a bucket with packets stays. Balancers do not agree about the buckets then.
//!   - `round-robin` takes the back ends in turn, packet by packet.
//! - `KEY`: packets with the same key have the same back end: `flow` (addresses, ports, protocol), `symmetric` (the
//!   same for both directions of a flow), or `outside` (the address of the host outside, for back ends that translate
//!   addresses). Default `symmetric`. Fragments and ICMP errors go to the back end of their flow.
//! - `SEED`: another number assigns flows to other buckets. All balancers need the same. Default 0.
//! - `OWN`: addresses of the router itself.
//! - `SPEAKER`: names of back ends that speak for the router, in order of preference. Default: the first back end.
//! - `OWNS`: names of back ends, each followed by networks. Packets to these always go to this back end, and are
//!   dropped if it is down (BalanceIn's `owner_down`).
//! - `INSIDE`: networks inside, reached by the balancer. Packets from outside to them are dropped (BalanceIn's
//!   `inside`).
//! - `CLASSES`: DSCPs and the back ends that get packets with them, such as `46+34=r1+r2`. If all of them are down,
//!   the others get these packets. `pcp5` stands for a VLAN priority, 0 to 7: frames with it have to pass a BalanceIn
//!   of this class (CLASS), as a frame's tag is gone there.
//! - `IDLE`: default 100 ms.
//! - `DEADLINE`: default 30 s.
//! - `SETTLE`: for this time after the start a bucket moves only away from a back end that goes down. Default 5 s.

use super::shared::Shared;
use crate::prelude::*;
use std::time::Duration;

/// Interval between searches for buckets due to move.
const SWEEP: Duration = Duration::from_millis(20);

pub(super) struct BalancePool(Arc<Shared>);

impl Element for BalancePool {
    const CONTRACT: Contract = Contract::new("BalancePool", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .copies(Copies::One);

    type Config = Shared;

    fn configure(args: &mut Args) -> Shared {
        Shared::parse(args)
    }

    fn new(config: &Arc<Shared>, _: &Init) -> BalancePool {
        BalancePool(Arc::clone(config))
    }

    fn start(&mut self, cx: &mut Cx) {
        self.timer(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.0.sweep(cx.now().0, cx.timestamp());
        cx.set_timer(cx.now() + SWEEP);
    }

    fn inherit(config: &mut Shared, old: &Shared) {
        config.follow(old);
    }

    const HANDLERS: &'static [Handler<BalancePool>] = &[
        Handler::shared(
            "backends",
            "a line per back end: name, Ethernet address, state, weight, buckets, buckets that will leave it, since \
             when it is up or down; and whether it speaks for the router",
            |shared: &Shared, _| Ok(shared.show()),
        ),
        Handler::shared(
            "metrics",
            "samples for Prometheus: state, buckets and weight of each back end",
            |shared: &Shared, _| Ok(shared.metrics()),
        ),
        Handler::shared(
            "journal",
            "the last 256 events, a line each: seconds since 1970, what happened and why",
            |shared: &Shared, _| Ok(shared.journal()),
        ),
        Handler::shared(
            "owners",
            "the owners of all buckets, 64 in a line",
            |shared: &Shared, _| Ok(shared.show_owners()),
        ),
        Handler::action(
            "drain",
            "`NAME [TIME]`: the back end gets no new flows; after TIME (default: DEADLINE) the rest leaves, too",
            |shared: &Shared, value| shared.drain(value),
        ),
        Handler::action(
            "use",
            "`NAME [TIME]`: the back end takes its share again",
            |shared: &Shared, value| shared.use_again(value),
        ),
        Handler::action(
            "weight",
            "`NAME n [TIME]`: the back end has another weight",
            |shared: &Shared, value| shared.set_weight(value),
        ),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, errors};

    const TWO: &str =
        "lb :: BalancePool(r1 2:0:0:0:0:1, r2 2:0:0:0:0:2 10.255.0.12, SETTLE 0, IDLE 50ms)";

    /// Name, state and buckets of each back end.
    fn backends(bench: &mut Bench) -> Vec<(String, String, u32)> {
        let lines = bench.read("lb.backends");
        let lines = lines.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (
                words[0].to_owned(),
                words[2].to_owned(),
                words[6].parse().expect("buckets"),
            )
        });
        lines.collect()
    }

    #[test]
    fn a_back_end_is_drained_and_used_again() {
        let mut bench = Bench::new(crate::with_basics(), TWO);
        bench.advance(Duration::from_millis(100));
        let first = backends(&mut bench);
        assert_eq!(first[0].2 + first[1].2, 65536);
        assert!(first[0].2.abs_diff(32768) < 600, "{first:?}");
        bench.write("lb.drain", "r1");
        assert_eq!(backends(&mut bench)[0].1, "draining");
        bench.advance(Duration::from_millis(200));
        assert_eq!(backends(&mut bench)[0], ("r1".into(), "drained".into(), 0));
        let samples = bench.read("lb.metrics");
        for line in [
            "balancer_backend_used 0 backend=r1\n",
            "balancer_backend_speaks 1 backend=r1\n",
            "balancer_backend_buckets 65536 backend=r2\n",
        ] {
            assert!(samples.contains(line), "{line}{samples}");
        }
        bench.write("lb.use", "r1 1s");
        bench.advance(Duration::from_millis(200));
        assert_eq!(backends(&mut bench), first);
        bench.write("lb.weight", "r1 3");
        bench.advance(Duration::from_millis(200));
        assert!(backends(&mut bench)[0].2.abs_diff(49152) < 600);
        let journal = bench.read("lb.journal");
        for what in [
            "r1 drained by hand",
            "r1 used by hand",
            "r1 has weight 3 by hand",
            "all buckets are where",
        ] {
            assert!(journal.contains(what), "{journal}");
        }
    }

    #[test]
    fn a_new_configuration_goes_on_where_the_old_one_was() {
        let mut bench = Bench::new(crate::with_basics(), TWO);
        bench.write("lb.drain", "r1");
        bench.advance(Duration::from_millis(200));
        bench
            .reload(&TWO.replace("r1 2:", "r0 2:0:0:0:0:9, r1 2:"))
            .expect("it is right");
        bench.advance(Duration::from_millis(200));
        let now = backends(&mut bench);
        assert_eq!((&*now[1].0, &*now[1].1, now[1].2), ("r1", "drained", 0));
        assert!(now[0].2.abs_diff(32768) < 600, "{now:?}");
    }

    #[test]
    fn bad_values_are_refused_and_change_nothing() {
        let mut bench = Bench::new(crate::with_basics(), TWO);
        for (handler, value) in [
            ("drain", "r3"),
            ("drain", ""),
            ("drain", "r1 soon"),
            ("drain", "r1 1s x"),
            ("use", "x"),
            ("weight", "r1"),
            ("weight", "r1 0"),
            ("weight", "r1 10001"),
            ("weight", "r1 1 x"),
            ("weight", "nobody 1"),
        ] {
            assert!(
                bench.try_write(&format!("lb.{handler}"), value).is_err(),
                "{handler} {value}"
            );
        }
        assert!(
            backends(&mut bench)
                .iter()
                .all(|(_, state, _)| state == "up")
        );
    }

    #[test]
    fn mistakes_are_told() {
        for (arguments, told) in [
            ("r1", "`r1` is no back end"),
            ("r1 zz", "the back end's address"),
            ("r1 ff:ff:ff:ff:ff:ff", "the address of no station"),
            ("r1 2:0:0:0:0:1, r1 2:0:0:0:0:2", "the same name: `r1`"),
            (
                "r1 2:0:0:0:0:1, r2 2:0:0:0:0:1",
                "the same Ethernet address: `r2`",
            ),
            ("r1 2:0:0:0:0:1 WEIGHT 0", "a weight is 1 to 10000"),
            ("r1 2:0:0:0:0:1, SPEAKER r9", "there is no back end `r9`"),
            ("r1 2:0:0:0:0:1, KEY x", "there is no KEY `x`"),
            ("r1 2:0:0:0:0:1, ALGORITHM x", "there is no ALGORITHM `x`"),
            (
                "r1 2:0:0:0:0:1, OWN 10.0.0.1, OWNS r1 10.0.0.0/24",
                "10.0.0.1 and 10.0.0.0/24 overlap",
            ),
            ("r1 2:0:0:0:0:1, OWN 10.0.0.999", "no address or network"),
            ("r1 2:0:0:0:0:1, CLASSES 64=r1", "`64` is no DSCP and"),
            (
                "r1 2:0:0:0:0:1, CLASSES pcp8=r1",
                "`pcp8` is no DSCP and no VLAN priority",
            ),
            ("r1 2:0:0:0:0:1, CLASSES 1", "`1` is no class"),
        ] {
            let all = errors(
                crate::with_basics(),
                &format!("lb :: BalancePool({arguments})"),
            );
            assert!(all.contains(told), "{arguments}: {all}");
        }
    }
}
