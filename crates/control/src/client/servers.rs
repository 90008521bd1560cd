//! Servers of a cluster that agree, as an operator at one of them reaches all: by mutual TLS, at the addresses that
//! etcd has, or had last.

use super::Client;
use crate::agreement::{self, Home, Operator, tls_client};
use agree::View;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

/// Time limits to reach a server, and for the server to prove itself.
const CONNECT_MAX: Duration = Duration::from_secs(2);
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// Servers of a cluster.
pub struct Servers {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the operator's own server.
    pub own: String,
    /// State of the agreement, or the reason why etcd does not tell it.
    pub view: Result<View, String>,
    /// Members that have not left, in the order of their names.
    pub names: Vec<String>,
    clients: Vec<Result<Client, String>>,
}

/// Answers of servers, in the order of their names; an error is a sentence.
pub type Answers<T> = Vec<Result<T, String>>;

impl Servers {
    /// All servers of the cluster to which the server of a folder belongs. If etcd does not answer, they are those of
    /// its last answer to this server.
    ///
    /// # Errors
    ///
    /// A file of the folder is missing or wrong, or no server is known; a sentence.
    pub fn find(home: &Home) -> Result<Servers, String> {
        let tls = Arc::new(tls_client(home)?);
        let view = Operator::new(home)?.view();
        let (names, addresses): (Vec<String>, BTreeMap<String, String>) = match &view {
            Ok(view) => (
                view.present().map(str::to_owned).collect(),
                view.addresses(),
            ),
            Err(_) => {
                let kept = home.servers()?;
                (kept.keys().cloned().collect(), kept)
            }
        };
        if names.is_empty() {
            return Err(match &view {
                Ok(_) => "no server has come up yet: start one by `ashlar cluster up --agreed`"
                    .to_owned(),
                Err(why) => format!(
                    "etcd does not answer ({why}), and this server has not learned the addresses of others yet"
                ),
            });
        }
        let client = |name: &String| {
            let at = addresses.get(name).ok_or(
                "it does not say at which address it answers: its program is older than `ashlar cluster top`",
            )?;
            let at = at
                .parse()
                .map_err(|_| format!("its address `{at}` cannot be read"))?;
            Ok(Client::of_server(at, Arc::clone(&tls)))
        };
        Ok(Servers {
            cluster: home.about.cluster.clone(),
            own: home.about.server.clone(),
            clients: names.iter().map(client).collect(),
            view,
            names,
        })
    }

    /// Client of one server.
    ///
    /// # Errors
    ///
    /// There is no such server, or it has no address; a sentence.
    pub fn client(&self, name: &str) -> Result<&Client, String> {
        let found = self.names.iter().position(|known| known == name);
        let found = found.ok_or_else(|| {
            format!(
                "`{name}` is no member of the cluster; members are: {}",
                self.names.join(", ")
            )
        })?;
        let client = self.clients[found].as_ref();
        client.map_err(|why| format!("server {name}: {why}"))
    }

    /// Asks all servers at the same time, so that one that hangs holds up nobody else's answer.
    pub fn ask<T: Send>(&self, ask: impl Fn(&Client) -> Result<T, String> + Sync) -> Answers<T> {
        let ask = &ask;
        std::thread::scope(|scope| {
            let threads = self.clients.iter().map(|client| {
                scope.spawn(move || match client {
                    Ok(client) => ask(client),
                    Err(why) => Err(why.clone()),
                })
            });
            let threads: Vec<_> = threads.collect();
            let answers = threads.into_iter().map(|thread| thread.join());
            answers
                .map(|answer| answer.unwrap_or_else(|_| Err("the request failed".to_owned())))
                .collect()
        })
    }

    /// Servers that did not answer, each with the reason.
    pub fn silent<'a, T>(&'a self, answers: &'a [Result<T, String>]) -> Vec<(&'a str, &'a String)> {
        let servers = self.names.iter().zip(answers);
        servers
            .filter_map(|(name, answer)| Some((&**name, answer.as_ref().err()?)))
            .collect()
    }
}

/// Connects to a server, which must have the address's certificate. The error is a sentence.
pub(super) async fn connect(
    at: SocketAddr,
    tls: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    agreement::connect(at, tls, CONNECT_MAX, HANDSHAKE_MAX).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_servers_are_those_whose_answer_is_an_error() {
        let servers = Servers {
            cluster: "rb4".to_owned(),
            own: "a".to_owned(),
            view: Err("etcd is away".to_owned()),
            names: ["a", "b", "c"].map(str::to_owned).into(),
            clients: Vec::new(),
        };
        let why = "it hangs".to_owned();
        let answers = [Ok(1), Err(why.clone()), Ok(3)];
        assert_eq!(servers.silent(&answers), [("b", &why)]);
    }
}
