//! `ashlar cluster leave`

use super::Done;
use crate::cli::cluster::agreement::Leave;
use crate::cmd::print;
use control::agreement::{Home, Operator};

pub(crate) fn leave(asked: &Leave) -> Done {
    let home = Home::open(&asked.at.home)?;
    let own = &home.about.server;
    let server = asked.server.as_ref().unwrap_or(own);
    // A server that others have removed has nothing to say in etcd any more.
    if server != own || !home.kept()?.left {
        Operator::new(&home)?.remove(server)?;
    }
    if server != own {
        return print(&format!(
            "server {server} has left cluster {}\n",
            home.about.cluster
        ));
    }
    home.forget()?;
    print(&format!(
        "server {server} has left cluster {}; its keys are removed from {}. It forwards until it is stopped\n",
        home.about.cluster,
        home.folder.display()
    ))
}
