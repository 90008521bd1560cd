//! Log messages about drops of a ControlPlanePolicer, which may explain a slow tunnel or routing protocol.

use super::Control;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use sync::Lock;
use tracing::warn;

/// Minimum interval of reports for a class.
const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(600);

/// Drop counts by class and policer, at the last check.
#[derive(Default)]
pub(crate) struct Policed(Lock<BTreeMap<(String, String), Class>>);

#[derive(Default)]
struct Class {
    drops: u64,
    last_report: Option<Instant>,
}

impl Control {
    /// Logs drops since the last call, each class once per interval. `label` names the router in the log.
    pub(crate) fn look_at_policers(&self, label: Option<&str>) {
        let plan = self.router().plan();
        let is_policer = |class: &str| class == "ControlPlanePolicer";
        for element in plan.elements.iter().filter(|e| is_policer(e.class.name)) {
            let name = &element.name;
            let Ok(drops) = self.read(&format!("{name}.named_drops"), "") else {
                continue;
            };
            for (class, drops) in drops.lines().filter_map(|line| line.split_once('\t')) {
                let more = self
                    .policed
                    .drops_to_report(name, class, drops.parse().unwrap_or(0));
                if let Some(more) = more {
                    warn!(
                        router = label,
                        to_do = format!(
                            "if it is no attack: `ashlar set {name}.rate \"{class} RATE\"`, then `ashlar save`"
                        ),
                        "{name} has dropped {more} frames for the kernel of the class `{class}`, which came faster \
                            than its rate"
                    );
                }
            }
        }
    }
}

impl Policed {
    /// Number of drops to report.
    fn drops_to_report(&self, element: &str, class: &str, drops: u64) -> Option<u64> {
        let mut all = self.0.lock();
        let known = all
            .entry((element.to_owned(), class.to_owned()))
            .or_default();
        let more = drops.saturating_sub(known.drops);
        if more == 0
            || known
                .last_report
                .is_some_and(|told| told.elapsed() < REPORT_INTERVAL_MIN)
        {
            return None;
        }
        *known = Class {
            drops,
            last_report: Some(Instant::now()),
        };
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_told_of_once_in_a_while() {
        let policed = Policed::default();
        assert_eq!(policed.drops_to_report("punt", "tunnel", 0), None);
        assert_eq!(policed.drops_to_report("punt", "tunnel", 7), Some(7));
        assert_eq!(policed.drops_to_report("punt", "tunnel", 9), None);
        assert_eq!(policed.drops_to_report("punt", "icmp", 1), Some(1));
    }
}
