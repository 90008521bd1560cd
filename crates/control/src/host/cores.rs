//! Processors of threads: workers run on their own, all other threads elsewhere.

use engine::element::Runs;
use engine::plan::Plan;
use lang::{Diagnostic, count};
use router::Workers;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread, and all threads that it and these start from now on, off the workers' processors, if other
/// processors are left.
pub fn leave_to_workers(cores: &[usize]) -> Result<(), String> {
    let failed = |e| format!("cannot leave processors to the workers: {e}");
    let mut others = sched_getaffinity(None).map_err(failed)?;
    for &core in cores.iter().filter(|&&core| core < CpuSet::MAX_CPU) {
        others.unset(core);
    }
    if others.count() == 0 {
        return Ok(());
    }
    sched_setaffinity(None, &others).map_err(failed)
}

/// Pins workers to processors: worker n to the n-th of `cores`, again from the first if there
/// are fewer. The error is a sentence.
pub fn pin(workers: &Workers, cores: &[usize]) -> Result<(), String> {
    for (worker, &core) in (0..workers.count()).zip(cores.iter().cycle()) {
        let pinned = workers.on_thread(worker, move || {
            if core >= CpuSet::MAX_CPU {
                return Err("there is no such processor".to_owned());
            }
            let mut own = CpuSet::new();
            own.set(core);
            sched_setaffinity(None, &own).map_err(|e| e.to_string())
        });
        pinned
            .map_err(|e| e.to_string())?
            .map_err(|e| format!("cannot pin worker {worker} to processor {core}: {e}"))?;
    }
    Ok(())
}

/// Warnings about the workers of a router that is alone: more of them than usable processors, or some without anything
/// to do.
pub fn odd_workers(plan: &Plan) -> Vec<Diagnostic> {
    let processors = sched_getaffinity(None).map_or(usize::MAX, |set| set.count() as usize);
    odd_workers_on(plan, processors)
}

fn odd_workers_on(plan: &Plan, processors: usize) -> Vec<Diagnostic> {
    let begins = |worker: usize| {
        let mut elements = plan.elements.iter();
        elements.any(|e| {
            let runs = e.runs == Runs::AsTask && e.workers.contains(&worker);
            runs || !e.queues_of(worker).is_empty()
        }) || plan.gathering().any(|(_, _, to)| to.contains(&worker))
    };
    let busy = (0..plan.workers).filter(|&worker| begins(worker)).count();
    let mut odd = Vec::new();
    let mut say = |text: String, help: String| {
        odd.push(Diagnostic::warning("workers", text).help(help));
    };
    if busy < plan.workers && plan.workers > 1 {
        say(
            format!(
                "of {} workers {} have nothing to do: all receive queues and tasks are with the others",
                plan.workers,
                plan.workers - busy
            ),
            format!(
                "run with --workers {}, give the ports more queues, or spread packets with CLASSIFY (docs/queues.md)",
                busy.max(1)
            ),
        );
    }
    if plan.workers > processors {
        let processors = count(processors, "processor");
        say(
            format!("{} workers share {processors}", plan.workers),
            "a worker polls: give each a processor of its own, or run fewer".to_owned(),
        );
    }
    odd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_without_work_or_processor_are_reported() {
        let told = |text: &str, processors| -> Vec<String> {
            let source = crate::description::source::Source {
                text: text.into(),
                ..crate::description::source::Source::default()
            };
            let ports = ports::Directory::new();
            let options = planner::Options::new(4, &ports);
            let compiled = crate::compile::compile(&source, &classes::registry(), &options);
            let plan = compiled
                .plan
                .unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
            let odd = odd_workers_on(&plan, processors);
            odd.into_iter().map(|odd| odd.message).collect()
        };
        let one = "InfiniteSource(LIMIT 1) -> Discard;";
        assert_eq!(told(one, 2).len(), 2);
        assert!(told(one, 4)[0].starts_with("of 4 workers 3 have nothing to do"));
        let all = "FromDevice(null:64) -> Discard;";
        assert!(told(all, 4).is_empty());
        assert_eq!(told(all, 1), ["4 workers share 1 processor"]);
    }

    #[test]
    fn threads_leave_the_workers_processors_if_there_are_others() {
        let mine = || sched_getaffinity(None).expect("Linux says it");
        let all = mine();
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&n| all.is_set(n)).collect();
        leave_to_workers(&cores).expect("nothing to do");
        assert_eq!(mine(), all, "there are no others");
        if let [first, .., last] = cores[..] {
            leave_to_workers(&[first, CpuSet::MAX_CPU]).expect("it may");
            let of_child = std::thread::spawn(mine).join().expect("it ends");
            for set in [mine(), of_child] {
                assert!(!set.is_set(first) && set.is_set(last), "{set:?}");
            }
        }
    }
}
