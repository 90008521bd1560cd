//! Assignment of devices' queues to copies of elements.

use super::title;
use engine::placement::{Device, Placement};
use engine::plan::{Plan, PlanDevice};
use engine::port::{PortInfo, PortRequest};
use lang::{Diagnostic, Router};
use std::collections::BTreeMap;

/// Maximum number of queues that an element may receive from: more than any port has.
const QUEUES_MAX: usize = 4096;

/// Distributes the queues of every device over the copies of the elements that use it.
pub(super) fn assign(
    plan: &mut Plan,
    placements: &[Placement],
    infos: &BTreeMap<String, PortInfo>,
    homes: &[Option<Vec<usize>>],
    router: &Router,
    errors: &mut Vec<Diagnostic>,
) {
    let mut requests: BTreeMap<String, PortRequest> = BTreeMap::new();
    let mut receiver: BTreeMap<String, usize> = BTreeMap::new();
    for (i, placement) in placements.iter().enumerate() {
        let Some(device) = &placement.device else {
            continue;
        };
        let request = requests.entry(device.name.clone()).or_default();
        request.descriptors = request.descriptors.max(device.descriptors);
        let at_home = homes[i].as_ref().map(Vec::len);
        let copies = at_home.unwrap_or(plan.elements[i].workers.len());
        if device.receives {
            request.promiscuous |= device.promiscuous;
            let offers = infos
                .get(&device.name)
                .map_or(usize::MAX, |p| p.max_rx_queues);
            // Excessive requests are reported below; for a missing device the number of queues is unknown.
            let queues = device.queues.unwrap_or(copies).min(offers).min(QUEUES_MAX);
            if let Some(placements) = device.queues {
                check(i, device, (placements, copies, offers), router, errors);
            }
            if let Some(&first) = receiver.get(&device.name) {
                let message = format!(
                    "`{}` receives from {} too",
                    title(&router.elements[i]),
                    device.name
                );
                let first = router.elements[first].span;
                errors.push(
                    Diagnostic::error("placement", message)
                        .at(router.elements[i].span)
                        .note_at(first, "the first one is here")
                        .help("let one element receive, and split its packets"),
                );
                continue;
            }
            receiver.insert(device.name.clone(), i);
            let dealt = |c: usize| (c..queues).step_by(copies.max(1)).collect();
            plan.elements[i].queues = match &homes[i] {
                None => (0..copies).map(dealt).collect(),
                Some(homes) => {
                    let workers = plan.elements[i].workers.iter();
                    let at = workers.map(|w| homes.iter().position(|home| home == w));
                    at.map(|c| c.map_or_else(Vec::new, dealt)).collect()
                }
            };
            request.rx_queues += queues;
        } else {
            let offers = infos
                .get(&device.name)
                .map_or(usize::MAX, |p| p.max_tx_queues);
            let workers = &plan.elements[i].workers;
            let base = request.tx_queues;
            let roomy = base + plan.workers <= offers;
            plan.elements[i].queues = if roomy {
                // Queues are numbered by worker, so a reload that moves other senders moves no queue.
                workers.iter().map(|worker| vec![base + worker]).collect()
            } else {
                (0..copies).map(|c| vec![base + c]).collect()
            };
            request.tx_queues += if roomy { plan.workers } else { copies };
            if request.tx_queues > offers {
                refuse(i, device, offers, request.tx_queues, router, errors);
            }
        }
    }
    plan.devices = requests
        .into_iter()
        .map(|(name, request)| PlanDevice { name, request })
        .collect();
}

fn refuse(
    i: usize,
    device: &Device,
    offers: usize,
    wanted: usize,
    router: &Router,
    errors: &mut Vec<Diagnostic>,
) {
    let message = format!(
        "{} offers {offers} transmit queues, but {wanted} are needed, one per worker and sender",
        device.name
    );
    let wrong = wrong_in(router, i, message);
    errors.push(wrong.help("put `Queue` before it, so that one worker sends"));
}

/// Refuses a number of receive queues that the device does not offer, or that leaves a worker without one.
fn check(
    i: usize,
    device: &Device,
    (asked, workers, offers): (usize, usize, usize),
    router: &Router,
    errors: &mut Vec<Diagnostic>,
) {
    let (message, help) = if asked > offers {
        let name = &device.name;
        (
            format!("{name} offers {offers} receive queues, but {asked} are asked for"),
            format!(
                "ask for {offers} or fewer, or for none: then each worker that receives has one"
            ),
        )
    } else if asked < workers {
        (
            format!(
                "{asked} receive queues are asked for, but {workers} needed, one per worker that receives"
            ),
            format!("ask for {workers} or more, or name fewer CORES"),
        )
    } else {
        return;
    };
    errors.push(wrong_in(router, i, message).help(help));
}

/// Diagnostic for a mistake in an element's placement request.
pub(super) fn wrong_in(router: &Router, i: usize, message: String) -> Diagnostic {
    let element = &router.elements[i];
    let wrong = Diagnostic::error("placement", message).at(element.span);
    wrong.about(title(element), element.span, Some("initializing"))
}
