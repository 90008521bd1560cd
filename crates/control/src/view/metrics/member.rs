//! Metrics of a cluster's server that agrees with others.

use super::Text;
use crate::view::Member;

impl Text {
    /// Adds how a server stands in its cluster.
    pub fn member(&mut self, member: &Member) {
        let about = [
            ("cluster", &*member.cluster),
            ("server", &*member.server),
            ("version", &*member.program),
        ];
        self.gauge("ashlar_cluster_info", "Which server of which cluster.")
            .sample(&about, 1);
        let down = member.links.iter().filter(|link| !link.up).count();
        let numbers: [(&str, &str, u64); 7] = [
            (
                "ashlar_cluster_epoch",
                "Highest epoch that the server has seen.",
                member.epoch,
            ),
            (
                "ashlar_cluster_leads",
                "1 if the server leads.",
                member.leads.into(),
            ),
            (
                "ashlar_cluster_etcd_up",
                "1 if etcd answers the server.",
                member.trouble.is_none().into(),
            ),
            (
                "ashlar_cluster_description_version",
                "Version of the description that the server runs.",
                member.version,
            ),
            (
                "ashlar_cluster_description_refused",
                "1 if the server could not take the version that is wanted.",
                member.error.is_some().into(),
            ),
            (
                "ashlar_cluster_links",
                "Links to other servers.",
                member.links.len() as u64,
            ),
            (
                "ashlar_cluster_links_down",
                "Links to other servers that are not in use.",
                down as u64,
            ),
        ];
        for (name, help, value) in numbers {
            self.gauge(name, help).sample(&[], value);
        }
        if let Some(wanted) = member.wanted {
            let help = "Version that all servers are to run, as etcd had it last.";
            self.gauge("ashlar_cluster_wanted_version", help)
                .sample(&[], wanted);
        }
        let ends = &member.certificates;
        let mut family = self.gauge(
            "ashlar_cluster_certificate_end_seconds",
            "End of a certificate, in seconds since 1970.",
        );
        for (of, end) in [
            ("server", ends.server_ends),
            ("authority", ends.authority_ends),
        ] {
            if let Some(end) = end {
                family.sample(&[("of", of)], end);
            }
        }
        if let Some(namespace) = &member.namespace {
            let help = "1 if the machine has the network namespace of the cluster's routes.";
            self.gauge("ashlar_cluster_namespace_there", help)
                .sample(&[("netns", &namespace.name)], u8::from(namespace.there));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{
        Certificates, CopyStats, DeviceUse, ElementStats, Info, Namespace, PortCounter,
    };
    use crate::view::{MemberLink, PortStats, Stats, WorkerStats};

    /// All metrics of a server that has one of everything.
    fn metrics() -> String {
        let copy = CopyStats {
            drops: vec![1],
            sent: vec![1],
            device: Some(DeviceUse::default()),
            ..CopyStats::default()
        };
        let stats = Stats {
            elements: vec![ElementStats {
                name: "q".to_owned(),
                drop_names: vec!["full".to_owned()],
                copies: vec![copy],
                ..ElementStats::default()
            }],
            ports: vec![PortStats {
                counters: vec![PortCounter::default()],
                ..PortStats::default()
            }],
            workers: vec![WorkerStats::default()],
            ..Stats::default()
        };
        let mut text = Text::default();
        text.router(&Info::default(), &stats);
        text.member(&member());
        text.finish()
    }

    fn member() -> Member {
        let link = |up| MemberLink {
            peer: "b".to_owned(),
            up,
        };
        Member {
            cluster: "rb4".to_owned(),
            server: "a".to_owned(),
            program: "1".to_owned(),
            epoch: 4,
            version: 2,
            wanted: Some(3),
            trouble: Some("etcd is away".to_owned()),
            links: vec![link(true), link(false), link(true)],
            namespace: Some(Namespace {
                name: "routes".to_owned(),
                there: true,
            }),
            certificates: Certificates {
                server_ends: Some(1_800_000_000),
                authority_ends: None,
            },
            ..Member::default()
        }
    }

    #[test]
    fn a_servers_place_in_its_cluster_is_told() {
        let text = metrics();
        for line in [
            "ashlar_cluster_info{cluster=\"rb4\",server=\"a\",version=\"1\"} 1\n",
            "ashlar_cluster_epoch 4\n",
            "ashlar_cluster_leads 0\n",
            "ashlar_cluster_etcd_up 0\n",
            "ashlar_cluster_description_version 2\n",
            "ashlar_cluster_wanted_version 3\n",
            "ashlar_cluster_links 3\n",
            "ashlar_cluster_links_down 1\n",
            "ashlar_cluster_certificate_end_seconds{of=\"server\"} 1800000000\n",
            "ashlar_cluster_namespace_there{netns=\"routes\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("of=\"authority\""), "{text}");
    }

    #[test]
    fn rules_of_alerts_name_metrics_that_exist() {
        let rules = include_str!("../../../../../conf/alerts.yml");
        let text = metrics();
        let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        // Comments and sentences may name the program.
        let words = rules
            .split(other)
            .filter(|word| word.starts_with("ashlar_"));
        let mut named: Vec<&str> = words.collect();
        named.sort_unstable();
        named.dedup();
        assert!(named.len() > 5, "{named:?}");
        for name in named {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}
