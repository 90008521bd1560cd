//! `ashlar cluster init`, `invite` and `join`

use super::{Done, read};
use crate::cli::cluster::agreement::{Init, Invite, Join};
use crate::cmd::{print, say};
use control::agreement::{self, About, Home, Token};
use control::file;
use std::net::SocketAddr;
use std::time::Duration;

/// Port for servers that join.
const PORT: u16 = 2381;

pub(crate) fn init(asked: &Init) -> Done {
    let file = read(&asked.file)?;
    let of = &file.description;
    let members = asked.etcd.iter().map(|(name, _)| name);
    for name in members.chain([&asked.server]) {
        of.number(name)?;
    }
    let etcd = match asked.etcd.is_empty() {
        true => vec![(asked.server.clone(), asked.address)],
        false => asked.etcd.clone(),
    };
    let about = About {
        cluster: of.name.clone(),
        server: asked.server.clone(),
        address: asked.address,
        identity: agreement::identifier()?,
        etcd: etcd.into_iter().collect(),
    };
    let home = agreement::found(&asked.at.home, &about, &file.source.text)?;
    print(&format!(
        "cluster {}: its authority, and the certificate of server {}, are in {}\n",
        of.name,
        asked.server,
        home.folder.display()
    ))?;
    next_steps(&home)
}

pub(crate) fn invite(asked: &Invite) -> Done {
    let home = Home::open(&asked.at.home)?;
    let text = home.read(agreement::DESCRIPTION)?;
    let parsed = file::parse_cluster(agreement::DESCRIPTION, &text);
    let of = parsed.description.as_ref().ok_or_else(|| parsed.text())?;
    for (name, _) in &asked.servers {
        of.number(name)?;
    }
    let listen = asked
        .listen
        .unwrap_or(SocketAddr::new(home.about.address, PORT));
    let limit = Duration::from_secs(asked.minutes * 60);
    let begin = |invitations: &[agreement::Invitation]| {
        let each = invitations.iter().map(|one| {
            format!(
                "on server {}:\n    ashlar cluster join {}\n",
                one.server, one.token
            )
        });
        print(&each.collect::<String>())
    };
    let told = Box::new(|text: String| say(&format!("{text}\n")));
    agreement::invite(home, listen, asked.servers.clone(), limit, begin, told)
}

pub(crate) fn join(asked: &Join) -> Done {
    let mut token = asked.token.clone();
    if token == "-" {
        token.clear();
        std::io::stdin()
            .read_line(&mut token)
            .map_err(|e| format!("cannot read standard input: {e}"))?;
    }
    let token: Token = token.parse()?;
    if asked.renew {
        let home = agreement::renew(&token, &asked.at.home)?;
        return print(&format!(
            "server {} has a new certificate and key in {}: its router and etcd use them from now on\n",
            home.about.server,
            home.folder.display()
        ));
    }
    let home = agreement::join(&token, &asked.at.home)?;
    print(&format!(
        "server {} has joined cluster {}: its certificate is in {}\n",
        home.about.server,
        home.about.cluster,
        home.folder.display()
    ))?;
    next_steps(&home)
}

/// Commands that start what is there now.
fn next_steps(home: &Home) -> Done {
    let etcd = home
        .write_etcd()?
        .map(|path| format!("    etcd --config-file {}\n", path.display()));
    print(&format!(
        "now start:\n{}    ashlar cluster up {} --agreed\n",
        etcd.unwrap_or_default(),
        home.path(agreement::DESCRIPTION).display()
    ))
}
