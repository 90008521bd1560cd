//! Defines names of addresses that other elements can use.
//!
//! ```click
//! AddressInfo(me 10.0.0.1/24 02:00:00:00:00:01, gw 10.0.0.254);
//! Idle -> EtherEncap(0x0800, me:eth, me) -> Discard;
//! ```
//!
//! Each argument is a name followed by its addresses: IPv4 or IPv6 addresses or prefixes, and Ethernet addresses. An
//! argument of another element may then be `me` or, to choose one of its addresses, `me:ip`, `me:ipnet`, `me:ip6`,
//! `me:ip6net` or `me:eth`. `10.0.0.0/8` is a prefix only, and no address. With a prefix there are also `me:bcast`,
//! the network's broadcast address, and `me:gw`, its first address, where the gateway usually is. Names apply in the
//! compound element that contains AddressInfo, and in those within it; the nearest AddressInfo counts. From elsewhere
//! it is `compound/me`. Where several addresses are accepted, `*/me` means that name of all compound elements that
//! have it. So a router may have a compound element for an interface, with the interface's addresses, and one list of
//! all (conf/ip-router.click).
//!
//! In `ashlar click` the name of an interface means the interface's own addresses if no AddressInfo defines it.

use crate::prelude::*;
use arguments::Names;
use planner::GivesNames;

pub(super) struct AddressInfo;

impl Element for AddressInfo {
    const CONTRACT: Contract = Contract::new("AddressInfo", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .extensions(&[&GivesNames(Names::insert_entry)])
        .ignores_annotations();

    type Config = ();

    fn configure(args: &mut Args) {
        for entry in args.rest("NAME", "a name and its addresses", "an entry") {
            let words = entry.words();
            if words.len() == 1 {
                let wrong = format!(
                    "`{}` has no address: write a name, then its addresses",
                    entry.raw
                );
                args.error_as(&entry, wrong, "expected 'NAME [ADDRS]'");
            }
            for word in words.iter().skip(1) {
                let named = || args.names().entries_of_name(word);
                if arguments::entries(word).is_empty() && named().is_empty() {
                    let wrong = format!("`{word}` is no IP or Ethernet address or prefix");
                    args.error_as(
                        &entry,
                        wrong,
                        format!("'{word}' is not a recognizable address"),
                    );
                }
            }
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> AddressInfo {
        AddressInfo
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_hold_in_their_compound_element_and_networks_have_a_broadcast_address() {
        let text = "AddressInfo(me 10.0.0.1/24 02:00:00:00:00:01);
            c :: { AddressInfo(me 10.0.1.1); Idle -> e :: IPEncap(4, me, me) -> output };
            c -> f :: IPEncap(4, me:gw, me:bcast) -> Discard";
        let mut bench = testkit::Bench::new(crate::CLASSES, text);
        let seen = ["c/e.src", "f.src", "f.dst"].map(|path| bench.read(path));
        assert_eq!(seen, ["10.0.1.1", "10.0.0.1", "10.0.0.255"]);
        let text =
            "c :: { AddressInfo(it 10.0.1.1); Idle -> output } -> IPEncap(4, it, it) -> Discard";
        assert!(testkit::errors(crate::CLASSES, text).contains("SRC must be"));
    }

    #[test]
    fn an_entry_without_a_valid_address_is_refused() {
        let errors = testkit::errors(
            crate::CLASSES,
            "AddressInfo(a 1.2.3.4, b, c 1.2.3, d 1.2.3.4/33)",
        );
        assert!(
            errors.contains("`b` has no address")
                && errors.contains("`1.2.3` is no IP")
                && errors.contains("`1.2.3.4/33` is no IP"),
            "{errors}"
        );
    }
}
