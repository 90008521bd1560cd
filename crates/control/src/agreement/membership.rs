//! A server's account of itself for other members of the cluster.

use super::home::Home;
use crate::description::cluster::Description;
use crate::view::{Member, Namespace};
use agree::Agent;
use std::sync::Arc;

/// Maker of the account: facts that do not change while the process runs, and the description that does.
pub(super) struct Membership {
    about: Member,
    description: Option<Arc<Description>>,
}

impl Membership {
    /// Maker for the server of a folder, which runs a version of the program and a description.
    pub(super) fn new(
        home: &Home,
        program: &str,
        description: Option<Arc<Description>>,
    ) -> Membership {
        let about = Member {
            cluster: home.about.cluster.clone(),
            server: home.about.server.clone(),
            program: program.to_owned(),
            ..Member::default()
        };
        Membership { about, description }
    }

    /// Notes that the server runs another description.
    pub(super) fn describe(&mut self, description: Option<Arc<Description>>) {
        self.description = description;
    }

    /// The account, as far as the agreement and the description tell. The process adds its clock, its links, its
    /// certificates, and what the machine has.
    pub(super) fn tell(&mut self, agent: &Agent) -> Member {
        let kept = agent.keeps();
        let server = &self.about.server;
        let described = self.description.as_deref();
        let own = described.and_then(|of| of.servers.get(of.server(server)?));
        let ports = own.into_iter().flat_map(|server| &server.ports);
        self.about.ports = ports.map(|port| port.name.clone()).collect();
        let namespace = described.and_then(|of| of.namespace.clone());
        self.about.namespace = namespace.map(|name| Namespace { name, there: false });
        self.about.epoch = kept.epoch;
        self.about.version = kept.version;
        self.about.trouble = agent.trouble().map(str::to_owned);
        // The view is missing for a moment whenever all values are read again.
        match agent.view() {
            Some(view) => {
                let state = view.state(&self.about.server);
                self.about.error = state.and_then(|state| state.error.clone());
                self.about.wanted = Some(view.version());
                self.about.leads = agent.leads();
                // The disk has a new epoch a moment later.
                self.about.epoch = kept.epoch.max(view.epoch());
            }
            None => self.about.leads &= self.about.trouble.is_none(),
        }
        self.about.clone()
    }
}
