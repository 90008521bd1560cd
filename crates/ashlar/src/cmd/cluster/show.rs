//! `ashlar cluster show`

use super::{Done, read, routers};
use crate::cli::cluster::servers::Show;
use crate::cmd::print;
use control::view::Info;

pub(crate) fn show(asked: &Show) -> Done {
    let file = read(&asked.file)?;
    for (of, client) in routers(&file) {
        match client.get_json::<Info>("/v1/info") {
            Ok(info) => print(&format!(
                "server {}: up {} s\n",
                of.name,
                info.uptime_ns / 1_000_000_000
            ))?,
            Err(why) => print(&format!("server {}: {why}\n", of.name))?,
        }
    }
    Ok(())
}
