//! Counters of messages and actions, for metrics and operators.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counter that one thread writes, which follows the kernel, and all threads read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, n: u64) {
        // A load and a store suffice, because only one thread writes.
        self.0.store(self.0.load(Relaxed) + n, Relaxed);
    }

    pub(super) fn set(&self, n: usize) {
        self.0.store(n as u64, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counts {
    ($counts:ident: $($kind:literal $name:ident: $doc:literal;)*) => {
        /// Counters of this module; `list` describes each.
        #[derive(Debug, Default)]
        pub(crate) struct $counts {
            $(pub(super) $name: Count,)*
        }

        impl $counts {
            /// Type, name, description and value of each counter, for Prometheus.
            pub(crate) fn list(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$(($kind, stringify!($name), $doc, self.$name.get())),*]
            }
        }
    };
}

counts! { Counts:
    "gauge" synced: "1 while the kernel's state is completely known";
    "gauge" routes4: "IPv4 prefixes with a route";
    "gauge" routes6: "IPv6 prefixes with a route";
    "gauge" labels: "MPLS labels with a route";
    "gauge" nexthops: "next-hop objects and groups";
    "gauge" links: "interfaces in the namespace";
    "gauge" links_used: "interfaces that the configuration names";
    "gauge" neighbours: "neighbours with an Ethernet address";
    "gauge" model_bytes: "memory of the model of the kernel's routes";
    "counter" messages: "messages heard";
    "gauge" rules: "rules of `ip rule` that are not followed, or missing: local comes first, then main";
    "gauge" not_forwarding: "interfaces, by family, whose packets the kernel would not forward, though the router does";
    "counter" bad_messages: "messages that could not be read, and were left out";
    "counter" lost: "times that messages were lost, because they came faster than they were read";
    "counter" resyncs: "times that the kernel was asked for everything, or for all routes, again";
    "gauge" resync_us: "microseconds that the last of these took";
    "counter" asks: "neighbours that the kernel was asked to find or to confirm";
    "counter" asks_limited: "questions for neighbours beyond the limit, not asked";
    "counter" asks_lost: "questions for neighbours that found no room on their way";
    "counter" asks_refused: "questions that the kernel refused";
    "counter" full: "times that a table of routes was full";
    "counter" other_table: "messages about routes of tables that are not followed";
    "counter" route_mtu: "messages about routes with an MTU of their own, by which packets are forwarded as long as \
        the interface takes them";
    "counter" selective: "messages about routes for some sources or traffic classes only";
    "counter" no_group: "times that a way of routes found no group, so that the kernel forwards";
    "counter" no_room: "times that a route did not fit";
    "counter" left_out: "routes, labels and next-hop objects beyond those that the router may have, left out";
    "gauge" fpm_connected: "1 while a routing daemon is connected by FPM";
    "counter" fpm_connections: "times that a routing daemon has connected by FPM";
    "counter" fpm_messages: "messages heard by FPM";
    "counter" fpm_refused: "connections by FPM that were refused, because another one lives";
    "counter" fpm_denied: "connections by FPM refused because of their owner";
    "counter" fpm_bad: "connections by FPM closed for invalid messages";
}

counts! { XfrmCounts:
    "gauge" xfrm_sas: "associations of the kernel's IPsec in use";
    "gauge" xfrm_policies: "policies of the kernel's IPsec";
    "counter" xfrm_messages: "messages heard about IPsec";
    "counter" xfrm_bad_messages: "messages about IPsec that could not be read";
    "counter" xfrm_lost: "times that messages about IPsec were lost, because they came faster than they were read";
    "counter" xfrm_resyncs: "times that the kernel was asked for all associations and policies";
    "gauge" xfrm_unresolved: "associations of which no end is an address of the namespace";
    "counter" xfrm_unsupported: "associations that cannot be used: other algorithms, protocols or modes";
    "gauge" xfrm_selective: "policies and associations that are for marked packets or XFRM interfaces, and are not \
        used";
    "gauge" xfrm_strict: "policies that cannot be represented; packets that may match them are dropped";
    "counter" xfrm_told: "reports to the kernel about the traffic of an association";
    "counter" xfrm_expired: "reports to the kernel that an association has reached a limit";
    "counter" xfrm_acquired: "reports to the kernel that an association is needed";
    "counter" xfrm_refused: "reports that the kernel refused, mostly about an association that had just gone";
}
