//! Processors: their other users, and their speed.

use super::{Finding, Level, Remedy};
use crate::Machine;

const CPU: &str = "sys/devices/system/cpu";

impl Machine {
    pub(super) fn cores(&self, found: &mut Vec<Finding>) {
        let names = self.files.list(CPU).into_iter();
        let cores: Vec<String> = names
            .filter(|name| {
                name.strip_prefix("cpu")
                    .is_some_and(|n| n.parse::<u32>().is_ok())
            })
            .collect();
        let governor = |core: &String| {
            self.files
                .read(&format!("{CPU}/{core}/cpufreq/scaling_governor"))
        };
        let slow = cores
            .iter()
            .filter_map(governor)
            .find(|name| name != "performance");
        if let Some(slow) = slow {
            let set = |to: &str| {
                format!("for f in /{CPU}/cpu*/cpufreq/scaling_governor; do echo {to} > $f; done")
            };
            let what = format!("processors change their speed (governor {slow})");
            let why = "a worker that slept starts slowly, so packets wait longer, and measurements differ";
            let mend = Remedy::new(set("performance"), set(&slow));
            found.push(Finding::new(Level::Note, "processors", what, why).with_remedy(mend));
        }
        let isolated = self
            .files
            .read(&format!("{CPU}/isolated"))
            .unwrap_or_default();
        if isolated.is_empty() && cores.len() > 2 {
            let what = "no processor is kept for workers";
            let why = "other programs and interrupts make packets wait now and then, for milliseconds; boot with \
                       isolcpus, nohz_full and rcu_nocbs, and name the same processors by `ashlar run --cores`";
            let last = cores.len() - 1;
            let kept = format!("2-{last}");
            let words = format!(
                "isolcpus={kept} nohz_full={kept} rcu_nocbs={kept}    # on the kernel's command line"
            );
            found.push(
                Finding::new(Level::Note, "processors", what, why)
                    .with_remedy(Remedy::by_hand(words)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[test]
    fn slow_and_shared_processors_are_noted() {
        let fake = Fake::new();
        for core in 0..4 {
            fake.write(
                &format!("{CPU}/cpu{core}/cpufreq/scaling_governor"),
                "powersave\n",
            );
        }
        fake.write(&format!("{CPU}/isolated"), "\n");
        let mut found = Vec::new();
        fake.machine().cores(&mut found);
        assert_eq!(found.len(), 2);
        let undo = found[0].mend.as_ref().and_then(|mend| mend.undo.as_deref());
        assert!(undo.is_some_and(|undo| undo.contains("echo powersave")));
        let words = found[1].mend.as_ref().map(|mend| &*mend.command);
        assert!(words.is_some_and(|words| words.starts_with("isolcpus=2-3 ")));
        fake.write(&format!("{CPU}/isolated"), "2-3\n");
        found.clear();
        fake.machine().cores(&mut found);
        assert_eq!(found.len(), 1);
    }
}
