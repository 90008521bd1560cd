//! Connections to other servers of the cluster, by mutual TLS.

use super::etcd::{chain, end_when_silent};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Silence after which a server's machine is asked whether it lives.
const SILENT: Duration = Duration::from_secs(10);

/// Connects to a server within `connect_max`, and has it prove within `handshake_max` that the address is its own.
/// Small messages are sent at once.
///
/// # Errors
///
/// The server does not answer in time, or has no certificate of the cluster for the address; a sentence.
pub(crate) async fn connect(
    at: SocketAddr,
    tls: &Arc<ClientConfig>,
    connect_max: Duration,
    handshake_max: Duration,
) -> Result<TlsStream<TcpStream>, String> {
    let connected = timeout(connect_max, TcpStream::connect(at)).await;
    let stream = connected
        .map_err(|_| "it cannot be reached in time".to_owned())?
        .map_err(|e| chain(&e))?;
    stream.set_nodelay(true).map_err(|e| chain(&e))?;
    end_when_silent(&stream, SILENT).map_err(|e| chain(&e))?;
    let tls = TlsConnector::from(Arc::clone(tls));
    let name = ServerName::IpAddress(at.ip().into());
    let secured = timeout(handshake_max, tls.connect(name, stream)).await;
    secured
        .map_err(|_| "it is reached, and does not show its certificate in time".to_owned())?
        .map_err(|e| chain(&e))
}
