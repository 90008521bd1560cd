//! Parameters of a hierarchy before its queues are allocated, and the check that its rates and ceilings are possible.

use super::Inner;
use super::list::{Link, Lists, NONE};
use super::settings::{CAPACITY_MAX, Ceilings, QUEUES_MAX, Settings, SettingsError, Share, quanta};

/// A hierarchy without its queues.
pub(super) struct Frame {
    pub(super) settings: Settings,
    pub(super) inners: Vec<Inner>,
    pub(super) ceilings: Ceilings,
    pub(super) least: Vec<u64>,
    /// Quantum and ceiling of each class.
    pub(super) class_links: Vec<(u32, u16)>,
}

impl Frame {
    /// Builds the frame, with the errors of [`Shares::new`](super::Shares::new).
    pub(super) fn new(
        settings: Settings,
        classes: &[Share],
        groups: &[Share],
        subscribers: &[(usize, Share)],
    ) -> Result<Frame, SettingsError> {
        let settings = Settings {
            mtu: settings.mtu.clamp(64, 1 << 16),
            capacity: settings.capacity.min(CAPACITY_MAX),
            ..settings
        };
        if subscribers.len().saturating_mul(classes.len()) > QUEUES_MAX {
            return Err(SettingsError::Queues);
        }
        let mtu = settings.mtu;
        let mut ceilings = Ceilings::new();
        let mut crowded = false;
        let mut ceiling = |rate: Option<u64>, quantum: u32| {
            let number = ceilings.number(&settings, rate, quantum);
            crowded |= number.is_none();
            number.unwrap_or(0)
        };
        let even = |shares: &[Share]| {
            let rates: Vec<u64> = shares.iter().map(|share| share.rate).collect();
            quanta(&rates, mtu)
        };
        let class_quanta = even(classes).ok_or(SettingsError::Classes)?;
        let group_quanta = even(groups).ok_or(SettingsError::Groups)?;
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
        for (number, (group, _)) in subscribers.iter().enumerate() {
            if let Some(members) = members.get_mut(*group) {
                members.push(number);
            }
        }
        let mut subscriber_quanta = vec![mtu; subscribers.len()];
        let mut least = Vec::new();
        for (group, members) in members.iter().enumerate() {
            let shares: Vec<Share> = members.iter().map(|&n| subscribers[n].1).collect();
            let quanta = even(&shares).ok_or(SettingsError::Subscribers(group))?;
            least.push(shares.iter().map(|share| share.rate).min().unwrap_or(1));
            for (&number, quantum) in members.iter().zip(quanta) {
                subscriber_quanta[number] = quantum;
            }
        }
        let mut inner = |quantum, rate, parent| Inner {
            link: Link::new(quantum, ceiling(rate, quantum), parent),
            lists: Lists::EMPTY,
            bytes: 0,
        };
        let mut inners = vec![inner(mtu, settings.link, NONE)];
        for (group, quantum) in groups.iter().zip(group_quanta) {
            inners.push(inner(quantum, group.ceiling, 0));
        }
        for ((group, share), quantum) in subscribers.iter().zip(subscriber_quanta) {
            let group = (*group).min(groups.len().saturating_sub(1));
            inners.push(inner(quantum, share.ceiling, group as u32 + 1));
        }
        let class_links: Vec<(u32, u16)> = class_quanta
            .into_iter()
            .zip(classes)
            .map(|(quantum, class)| (quantum, ceiling(class.ceiling, quantum)))
            .collect();
        if crowded {
            return Err(SettingsError::Ceilings);
        }
        Ok(Frame {
            settings,
            inners,
            ceilings,
            least,
            class_links,
        })
    }
}
