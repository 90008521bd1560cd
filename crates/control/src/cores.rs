//! Which processors threads run on: workers on their own, everything else elsewhere.

use router::Workers;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread, and all threads that it and these start from now on, off processors that workers
/// have for themselves, if that leaves any. The error is a sentence.
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

#[cfg(test)]
mod tests {
    use super::*;

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
