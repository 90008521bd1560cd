//! Placement of elements on workers. Only sources and pulling elements are assigned to workers. All other elements
//! run where their packets are (RouteBricks: one packet, one core), up to the next queue.

use super::queues::{self, wrong_in};
use super::work_list::WorkList;
use super::{Options, title};
use engine::element::{Class, Copies, Runs};
use engine::graph::call;
use engine::placement::Placement;
use engine::plan::{Plan, PlanElement};
use engine::port::PortInfo;
use lang::{Diagnostic, Router};
use std::collections::{BTreeMap, BTreeSet};

type Workers = BTreeSet<usize>;

pub(super) fn place(
    plan: &mut Plan,
    router: &Router,
    options: &Options,
    errors: &mut Vec<Diagnostic>,
) {
    for element in &mut plan.elements {
        let task = match element.runs {
            Runs::AsTaskIfPull => element.input_pull(),
            Runs::AsTaskIfPush => !element.output_pull(),
            runs => runs == Runs::AsTask,
        };
        element.runs = if task { Runs::AsTask } else { Runs::OnPackets };
    }
    let mut asked = placements(plan, router, options, errors);
    if options.as_click {
        for (element, placement) in plan.elements.iter_mut().zip(&mut asked) {
            let named = placement.workers.take();
            element.task_worker = named.and_then(|w| w.first().copied()).unwrap_or(0);
        }
    }
    let infos = probe(&asked, router, options, errors);
    let (mut fixed, homes) = fixed(plan, &asked, &infos, router, errors);
    let pullers = pullers(plan);
    let upstream: BTreeMap<usize, Upstream> =
        pullers.iter().map(|&i| (i, upstream(plan, i))).collect();
    let gathers = fixed.iter().zip(&asked);
    let leaves: Vec<Option<Workers>> = gathers
        .map(|(workers, asked)| workers.clone().filter(|_| asked.gathers))
        .collect();
    let mut active = propagate_activity(plan, &fixed, &leaves, &upstream);
    // A sender with fewer transmit queues than cores that reach it gets one owner instead.
    for (&i, up) in &upstream {
        let room = transmit_room(&asked[i], &infos);
        if fixed[i].is_none() && (active[i].len() > room || !can_be_cloned(plan, i, up)) {
            fixed[i] = Some(Workers::from([owner(plan, i, up, &active)]));
        }
    }
    active = propagate_activity(plan, &fixed, &leaves, &upstream);
    store(plan, &active, &leaves);
    for element in &mut plan.elements {
        if !options.as_click {
            element.task_worker = task_worker(element);
        } else if element.workers.is_empty() {
            // The element gets no packets, but its handlers may be used.
            (element.workers, element.pullers) = (vec![0], vec![0]);
        }
    }
    check_copies(plan, &asked, router, errors);
    queues::assign(plan, &asked, &infos, &homes, router, errors);
}

fn placements(
    plan: &Plan,
    router: &Router,
    options: &Options,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Placement> {
    let mut asked: Vec<Placement> = plan.elements.iter().map(PlanElement::placement).collect();
    let assigned: Vec<(usize, String, Vec<usize>)> = asked
        .iter()
        .enumerate()
        .flat_map(|(i, p)| {
            p.assigns
                .iter()
                .map(move |(n, w)| (i, n.clone(), w.clone()))
        })
        .collect();
    for (by, name, workers) in assigned {
        let named = elements_named(plan, by, &name);
        if named.is_empty() {
            let wrong = wrong_in(router, by, format!("there is no element `{name}`"));
            errors.push(wrong.help("name an element of this configuration"));
        }
        for i in named {
            asked[i].workers = Some(workers.clone());
        }
    }
    for (i, placement) in asked.iter().enumerate() {
        let beyond = placement
            .workers
            .iter()
            .flatten()
            .find(|&&w| w >= plan.workers && !options.as_click);
        if let Some(worker) = beyond {
            let message = format!(
                "worker {worker} is asked for, but there are {}",
                plan.workers
            );
            let help = format!(
                "run with --workers {} or more, or name workers from 0 to {}",
                worker + 1,
                plan.workers - 1
            );
            errors.push(wrong_in(router, i, message).help(help));
        }
    }
    asked
}

/// Resolves a name that element `by` uses: an element, or all elements of a compound element.
fn elements_named(plan: &Plan, by: usize, name: &str) -> Vec<usize> {
    let within = &plan.elements[by].name;
    if let Some(element) = call::find_element(plan, within, name) {
        return vec![element];
    }
    let mut scope = within.as_str();
    loop {
        scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
        let inside = match scope {
            "" => format!("{name}/"),
            _ => format!("{scope}/{name}/"),
        };
        let each = plan.elements.iter().enumerate();
        let found: Vec<usize> = each
            .filter(|(_, element)| element.name.starts_with(&inside))
            .map(|(i, _)| i)
            .collect();
        if !found.is_empty() || scope.is_empty() {
            return found;
        }
    }
}

fn probe(
    placements: &[Placement],
    router: &Router,
    options: &Options,
    errors: &mut Vec<Diagnostic>,
) -> BTreeMap<String, PortInfo> {
    let mut infos = BTreeMap::new();
    for (i, device) in placements
        .iter()
        .enumerate()
        .filter_map(|(i, p)| Some((i, p.device.as_ref()?)))
    {
        if infos.contains_key(&device.name) {
            continue;
        }
        match options.ports.probe(&device.name) {
            Ok(info) => {
                infos.insert(device.name.clone(), info);
            }
            Err(why) => {
                let make = if options.devices_must_exist {
                    Diagnostic::error
                } else {
                    Diagnostic::warning
                };
                let element = &router.elements[i];
                let wrong = make("device", why).at(element.span);
                errors.push(wrong.about(title(element), element.span, Some("initializing")));
            }
        }
    }
    infos
}

/// For each receiver whose queues may move: the workers that own queues at the start.
type InitialOwners = Vec<Option<Vec<usize>>>;

/// Workers of sources, and of pulling elements that request a worker. A receiver whose packets are steered has a copy
/// on every worker, so that its queues can move; its initial owners are the workers with queues at the start.
fn fixed(
    plan: &Plan,
    placements: &[Placement],
    infos: &BTreeMap<String, PortInfo>,
    router: &Router,
    errors: &mut Vec<Diagnostic>,
) -> (Vec<Option<Workers>>, InitialOwners) {
    let mut next_single = 0;
    let mut homes: InitialOwners = vec![None; plan.elements.len()];
    let mut place = |i: usize| -> Option<Workers> {
        let element = &plan.elements[i];
        let wish = placements[i].workers.as_ref().map(|w| {
            w.iter()
                .copied()
                .filter(|&w| w < plan.workers)
                .collect::<Workers>()
        });
        if element.runs != Runs::AsTask {
            return None;
        }
        if element.inputs.iter().any(|&pull| pull) {
            return wish;
        }
        if placements[i].gathers {
            return Some(wish.unwrap_or_else(|| (0..plan.workers).collect()));
        }
        let Some(device) = placements[i].device.as_ref().filter(|d| d.receives) else {
            return Some(wish.unwrap_or_else(|| Workers::from([0])));
        };
        let offers = infos
            .get(&device.name)
            .map_or(usize::MAX, |info| info.max_rx_queues);
        if let Some(wish) = wish {
            if wish.len() > offers {
                let message = format!(
                    "{} offers {offers} receive queues, but {} workers are asked for",
                    device.name,
                    wish.len()
                );
                let wrong = wrong_in(router, i, message);
                errors.push(wrong.help("name fewer CORES, or give the device more queues"));
            }
            return Some(wish);
        }
        let n = device
            .queues
            .unwrap_or(usize::MAX)
            .min(offers)
            .min(plan.workers)
            .max(1);
        if n == plan.workers {
            return Some((0..n).collect());
        }
        // Devices with fewer queues than workers are assigned to the workers in turn.
        let workers: Workers = (0..n).map(|k| (next_single + k) % plan.workers).collect();
        next_single += n;
        if is_gathered(plan, i, placements) {
            homes[i] = Some(workers.into_iter().collect());
            return Some((0..plan.workers).collect());
        }
        Some(workers)
    };
    let fixed = (0..plan.elements.len()).map(&mut place).collect();
    (fixed, homes)
}

/// True if every packet of a source reaches an element that distributes packets to workers, through elements that
/// pass packets on immediately.
fn is_gathered(plan: &Plan, source: usize, placements: &[Placement]) -> bool {
    let mut seen = BTreeSet::from([source]);
    let mut to_do = vec![source];
    let mut gathered = false;
    while let Some(from) = to_do.pop() {
        for edge in plan.edges.from(from) {
            let (to, element) = (edge.to.0, &plan.elements[edge.to.0]);
            if placements[to].gathers {
                gathered = true;
            } else if edge.pull
                || placements[to].device.is_some()
                || element.runs == Runs::AsTask
                || element.class.copies != Copies::PerCore
                || element.outputs.contains(&true)
            {
                return false;
            } else if seen.insert(to) {
                to_do.push(to);
            }
        }
    }
    gathered
}

fn pullers(plan: &Plan) -> Vec<usize> {
    let pulls = |i: &usize| {
        plan.elements[*i].runs == Runs::AsTask && plan.elements[*i].inputs.iter().any(|&p| p)
    };
    (0..plan.elements.len()).filter(pulls).collect()
}

/// Elements that a pulling element reaches upstream through pull connections.
struct Upstream {
    /// Elements that provide packets to pull.
    pull_sources: Vec<usize>,
    /// True if some element upstream cannot be copied.
    not_copyable: bool,
}

fn upstream(plan: &Plan, puller: usize) -> Upstream {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::from([puller]);
    let mut to_do = vec![puller];
    let mut single = false;
    while let Some(element) = to_do.pop() {
        for edge in plan.edges.edges_to(element).filter(|e| e.pull) {
            let up = edge.from.0;
            if seen.insert(up) {
                single |= plan.elements[up].class.copies != Copies::PerCore;
                let inputs = &plan.elements[up].inputs;
                if inputs.is_empty() || inputs.iter().any(|&pull| !pull) {
                    found.insert(up);
                }
                to_do.push(up);
            }
        }
    }
    Upstream {
        pull_sources: found.into_iter().collect(),
        not_copyable: single,
    }
}

/// True if each worker may have its own copy of a pulling element and its queue: there is only one queue, and no
/// element in between keeps an order across workers.
fn can_be_cloned(plan: &Plan, puller: usize, upstream: &Upstream) -> bool {
    upstream.pull_sources.len() == 1
        && !upstream.not_copyable
        && plan.elements[puller].class.copies == Copies::PerCore
        && plan
            .edges
            .from(upstream.pull_sources[0])
            .filter(|e| e.pull)
            .count()
            == 1
}

/// The worker of a pulling element that cannot be copied. It is the worker that fills a queue whose two ends must be
/// on one worker; otherwise it is chosen by the element's number.
fn owner(plan: &Plan, puller: usize, upstream: &Upstream, active: &[Workers]) -> usize {
    let mut tied = upstream
        .pull_sources
        .iter()
        .filter(|&&q| plan.elements[q].class.copies != Copies::PerCore);
    tied.find_map(|&q| active[q].first().copied())
        .unwrap_or(puller % plan.workers)
}

fn transmit_room(placement: &Placement, infos: &BTreeMap<String, PortInfo>) -> usize {
    let device = placement.device.as_ref().filter(|d| !d.receives);
    device
        .and_then(|d| infos.get(&d.name))
        .map_or(usize::MAX, |info| info.max_tx_queues)
}

/// For each element, the workers on which it is active. Activity spreads downstream along push connections from
/// elements where packets start, and upstream along pull connections from elements that pull. Packets leave the
/// elements in `pull_sources` only on the workers given there.
fn propagate_activity(
    plan: &Plan,
    fixed: &[Option<Workers>],
    pull_sources: &[Option<Workers>],
    upstream: &BTreeMap<usize, Upstream>,
) -> Vec<Workers> {
    let n = plan.elements.len();
    let mut active: Vec<Workers> = fixed
        .iter()
        .map(|f| f.clone().unwrap_or_default())
        .collect();
    let mut pushers: Vec<Workers> = vec![Workers::new(); n];
    let is_reached = |i: usize| {
        let pushed = plan.edges.edges_to(i).any(|e| !e.pull);
        pushed || plan.edges.from(i).any(|e| e.pull)
    };
    for i in (0..n).filter(|&i| !is_reached(i) && plan.elements[i].runs != Runs::AsTask) {
        active[i].insert(0);
    }
    // For each queue, the pulling elements that run where the queue is filled.
    let mut cloned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let free = upstream
        .iter()
        .filter(|(puller, _)| fixed[**puller].is_none());
    for (&puller, up) in free.clone() {
        let pull_sources = up.pull_sources.iter();
        pull_sources.for_each(|&leaf| cloned.entry(leaf).or_default().push(puller));
    }
    let mut to_do = WorkList::new(0..n, n);
    let mut idle = 0;
    loop {
        while let Some(element) = to_do.next() {
            let workers = active[element].clone();
            for edge in plan.edges.edges_to(element).filter(|e| e.pull) {
                if add(&mut active[edge.from.0], &workers) {
                    to_do.add(edge.from.0);
                }
            }
            let leaving = pull_sources[element].as_ref().unwrap_or(&workers);
            for edge in plan.edges.from(element).filter(|e| !e.pull) {
                let to = edge.to.0;
                if add(&mut pushers[to], leaving) | add(&mut active[to], leaving) {
                    to_do.add(to);
                }
            }
            for &puller in cloned.get(&element).into_iter().flatten() {
                if add(&mut active[puller], &pushers[element]) {
                    to_do.add(puller);
                }
            }
        }
        let mut more = false;
        for &puller in free.clone().map(|(puller, _)| puller) {
            if active[puller].is_empty() {
                active[puller].insert(0);
                to_do.add(puller);
                more = true;
            }
        }
        if more {
            continue;
        }
        // An element in a cycle that no packet reaches gets a copy, too, for its handlers.
        match active[idle..].iter().position(Workers::is_empty) {
            Some(next) => {
                idle += next;
                active[idle].insert(0);
                to_do.add(idle);
            }
            None => return active,
        }
    }
}

/// Adds workers to others; returns true if some were new.
fn add(to: &mut Workers, more: &Workers) -> bool {
    let before = to.len();
    to.extend(more);
    to.len() > before
}

fn store(plan: &mut Plan, active: &[Workers], leaves: &[Option<Workers>]) {
    let mut pushers = vec![Workers::new(); plan.elements.len()];
    let mut pullers_of = vec![Workers::new(); plan.elements.len()];
    for edge in &plan.edges {
        if edge.pull {
            pullers_of[edge.from.0].extend(&active[edge.to.0]);
        } else {
            let from = edge.from.0;
            pushers[edge.to.0].extend(leaves[from].as_ref().unwrap_or(&active[from]));
        }
    }
    for (i, element) in plan.elements.iter_mut().enumerate() {
        element.workers = active[i].iter().copied().collect();
        element.pushers = pushers[i].iter().copied().collect();
        let pulls = if pullers_of[i].is_empty() {
            &active[i]
        } else {
            &pullers_of[i]
        };
        element.pullers = pulls.iter().copied().collect();
    }
}

fn check_copies(
    plan: &Plan,
    placements: &[Placement],
    router: &Router,
    errors: &mut Vec<Diagnostic>,
) {
    let list = |w: &[usize]| {
        w.iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    for (i, element) in plan.elements.iter().enumerate() {
        let class: &Class = element.class;
        if class.copies == Copies::One && element.workers.len() > 1 {
            let message = format!(
                "`{}` has state for one worker, but is reached from workers {}",
                title(&router.elements[i]),
                list(&element.workers)
            );
            let help = "put `Queue -> Unqueue(CORES 0)` before it, or give its sources CORES with one worker";
            errors.push(
                Diagnostic::error("placement", message)
                    .at(element.span)
                    .help(help),
            );
        }
        let limit = placements[i].workers_max.unwrap_or(usize::MAX);
        if let Some(worker) = element.workers.iter().find(|&&worker| worker >= limit) {
            let message = format!(
                "`{}` tells {limit} workers apart, and is reached from worker {worker}",
                title(&router.elements[i])
            );
            let help = format!(
                "run with --workers {limit} or fewer, or give its sources CORES 0-{}",
                limit.saturating_sub(1)
            );
            let wrong = Diagnostic::error("placement", message).at(element.span);
            errors.push(wrong.help(help));
        }
        if element.pullers.len() > 1
            && element.pushers.iter().any(|w| !element.pullers.contains(w))
            && element.outputs.contains(&true)
        {
            let message = format!(
                "`{}` is filled by workers {} and emptied by workers {}",
                title(&router.elements[i]),
                list(&element.pushers),
                list(&element.pullers)
            );
            errors.push(
                Diagnostic::error("placement", message)
                    .at(element.span)
                    .help("let one worker empty it: CORES with one worker behind it"),
            );
        }
    }
}

/// The worker that runs an element's task, or its first copy.
fn task_worker(element: &PlanElement) -> usize {
    let workers = match element.runs {
        Runs::OnPackets => &element.workers,
        _ => &element.pullers,
    };
    workers.first().copied().unwrap_or(0)
}
