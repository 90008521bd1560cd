//! The API for members of the server's cluster: over mutual TLS, and only what changes nothing.
//!
//! Members may be hostile, and anybody may connect. So nobody gets more than a place among [`CLIENTS_MAX`], one
//! request, and a short time, except for the few captures and traces that run at a time. Handshakes, which cost most,
//! are bounded by a pause after each connection.

use super::request::Request;
use super::{ACCEPT_RETRY_DELAY, Api, FETCHED_MAX, METRICS_TIMEOUT, Serves, TimedStream};
use crate::agreement::{Members, Refusals, chain, end_when_silent};
use crate::isolated::remote::Answer;
use crate::process::Process;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// Maximum number of connected clients; further clients wait.
const CLIENTS_MAX: usize = 32;
/// Pause between connections: at most 100 handshakes a second, a few hundredths of a core.
const BETWEEN: Duration = Duration::from_millis(10);
/// Time limit for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Time limits in seconds, beyond that of other requests: the longest trace with its answer, and a capture.
const TRACE_TIME: u64 = 80;
const CAPTURE_TIME: u64 = 24 * 3600;
/// Silence after which a client's machine is asked whether it lives.
const SILENT: Duration = Duration::from_secs(10);
/// Pause between attempts to listen.
const AGAIN: Duration = Duration::from_secs(1);

impl Api {
    /// API for members of the server's cluster. They use limits of their own.
    pub(crate) fn of_members(process: Arc<Process>) -> Api {
        Api {
            serves: Serves::Members,
            ..Api::with_places(process, CLIENTS_MAX, FETCHED_MAX)
        }
    }

    /// Serves members until the process ends. Without the address, which may come later, it tries again.
    pub(crate) async fn serve_members(self, members: Members) -> Infallible {
        let Members { at, tls } = members;
        let mut told = None;
        let listener = loop {
            let why = match TcpListener::bind(at).await {
                Ok(listener) => break listener,
                Err(e) => format!("cannot listen at {at}: {e}"),
            };
            if told.as_ref() != Some(&why) {
                warn!(
                    "other servers of the cluster get no answers from this one: {why}; it tries again"
                );
                told = Some(why);
            }
            sleep(AGAIN).await;
        };
        if told.is_some() {
            info!(%at, "other servers of the cluster get answers from this one");
        }
        self.serve_members_of(listener, tls).await
    }

    async fn serve_members_of(self, listener: TcpListener, tls: TlsAcceptor) -> Infallible {
        let refused = Arc::new(Refusals::default());
        loop {
            let slot = self.acquire_slot().await;
            let Ok((stream, peer)) = listener.accept().await else {
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let (api, tls, refused) = (self.clone(), tls.clone(), Arc::clone(&refused));
            tokio::spawn(async move {
                if let Err(why) = api.member(stream, tls).await {
                    refused.tell(&format!("refused {peer}, which wants to read here: {why}"));
                }
                drop(slot);
            });
            sleep(BETWEEN).await;
        }
    }

    /// One connection. The error is the reason why the client is no member.
    async fn member(&self, stream: TcpStream, tls: TlsAcceptor) -> Result<(), String> {
        end_when_silent(&stream, SILENT).map_err(|e| chain(&e))?;
        let secured = timeout(HANDSHAKE, tls.accept(TimedStream::new(stream))).await;
        let stream = secured
            .map_err(|_| "it shows no certificate in time".to_owned())?
            .map_err(|e| chain(&e))?;
        let extended = Arc::new(AtomicU64::new(0));
        let api = Api {
            extended: Some(Arc::clone(&extended)),
            ..self.clone()
        };
        let answered = api.connection(stream, false);
        tokio::pin!(answered);
        // A slow client is abandoned.
        if timeout(METRICS_TIMEOUT, &mut answered).await.is_err() {
            let more = Duration::from_secs(extended.load(Ordering::Relaxed));
            let _ = timeout(more, answered).await;
        }
        Ok(())
    }
}

/// Seconds that a request may take beyond the time limit of others.
pub(super) fn extension(wanted: &Request) -> u64 {
    match wanted.answer_kind() {
        Answer::Endless => CAPTURE_TIME,
        Answer::Long => TRACE_TIME,
        Answer::Short => 0,
    }
}

#[cfg(test)]
#[path = "members_tests.rs"]
mod tests;
