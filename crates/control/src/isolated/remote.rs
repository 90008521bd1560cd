//! Requests to the process of an isolated router, which is not trusted: it may answer anything, endlessly, or not at
//! all.

use crate::view::Failure;
use crate::view::{Info, ReloadReply, ReloadRequest, Stats, Wrong};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Timeout for the start of an answer, and for each further piece.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of slow requests, such as a trace or a reload.
const LONG_TIMEOUT: Duration = Duration::from_secs(65);
/// Timeout of a query for metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of a relayed answer other than a capture, in bytes.
const ANSWER_MAX: usize = 64 << 20;
/// Maximum length in bytes of an answer that this process parses: a router's description, a reload's result or an
/// error.
pub(crate) const INFO_MAX: usize = 64 << 10;
const REPLY_MAX: usize = 1 << 20;
const ERROR_MAX: usize = 64 << 10;
/// Maximum number of pieces queued for a client.
const QUEUED_CHUNKS_MAX: usize = 16;

/// Kind of an answer, which determines timeout and length limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A complete answer within [`SHORT_TIMEOUT`].
    Short,
    /// A complete answer within [`LONG_TIMEOUT`].
    Long,
    /// An endless stream of pieces.
    Endless,
}

/// Control socket of a router's process, with the identity that the process must have.
#[derive(Clone, Debug)]
pub(crate) struct RemoteAddress {
    pub(super) socket: PathBuf,
    /// User that the process must run as.
    pub(super) user: u32,
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(502, format!("the router's process does not answer: {why}"))
}

impl RemoteAddress {
    /// Sends a request. Returns the answer once its head has arrived.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let stream = UnixStream::connect(&self.socket).await.map_err(failed)?;
        // The folder belongs to the user, who may have bound another program's socket there.
        if stream.peer_cred().map_err(failed)?.uid() != self.user {
            return Err(failed("another program listens at its socket"));
        }
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(failed)?;
        // The connection task ends with the answer.
        tokio::spawn(async {
            let _ = connection.await;
        });
        sender.send_request(request).await.map_err(failed)
    }

    /// Sends a request, and relays the answer piece by piece. An error answer of the process becomes an error here. The
    /// request's slot is released with the last piece.
    pub(crate) async fn ask(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        kind: Answer,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Result<mpsc::Receiver<Bytes>, Failure> {
        let request = Request::builder().method(method).uri(target);
        let request = request
            .header("Host", "ashlar")
            .body(Full::new(body))
            .map_err(failed)?;
        let late = |_| failed("it takes too long");
        let patience = if kind == Answer::Long {
            LONG_TIMEOUT
        } else {
            SHORT_TIMEOUT
        };
        let sent = tokio::time::timeout(patience, self.send(request)).await;
        let answer = sent.map_err(late)??;
        let status = answer.status();
        if !status.is_success() {
            let body = Limited::new(answer.into_body(), ERROR_MAX).collect();
            let body = tokio::time::timeout(SHORT_TIMEOUT, body)
                .await
                .map_err(late)?;
            let body = body.map_err(failed)?.to_bytes();
            let wrong: Result<Wrong, _> = serde_json::from_slice(&body);
            return Err(Failure::new(status.as_u16(), wrong.map_err(failed)?.error));
        }
        let (to, pieces) = mpsc::channel(QUEUED_CHUNKS_MAX);
        let (most, patience) = match kind {
            Answer::Endless => (usize::MAX, Duration::MAX),
            _ => (ANSWER_MAX, patience),
        };
        tokio::spawn(async move {
            let mut body = Limited::new(answer.into_body(), most);
            // The client may have disconnected.
            while let Ok(Some(Ok(frame))) = tokio::time::timeout(patience, body.frame()).await {
                if let Ok(data) = frame.into_data()
                    && to.send(data).await.is_err()
                {
                    break;
                }
            }
            drop(seat);
        });
        Ok(pieces)
    }

    /// Waits for a complete answer of bounded length, outside the async runtime.
    fn ask_and_wait(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
        (patience, most): (Duration, usize),
    ) -> Result<Vec<u8>, Failure> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build().map_err(failed)?;
        runtime.block_on(async {
            let whole = async {
                let pieces = self.ask(method, target, body, Answer::Long, None).await?;
                collect_body(pieces, most).await
            };
            let late = |_| failed("it takes too long");
            tokio::time::timeout(patience, whole).await.map_err(late)?
        })
    }
}

/// Collects the pieces of an answer of at most `limit` bytes.
pub(crate) async fn collect_body(
    mut pieces: mpsc::Receiver<Bytes>,
    limit: usize,
) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    while let Some(piece) = pieces.recv().await {
        if all.len() + piece.len() > limit {
            return Err(failed(format!("its answer is longer than {limit} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

impl RemoteAddress {
    /// Queries the process for its description and counters. `None` after a timeout, an error, or more than `limit`
    /// bytes.
    pub(crate) fn counts(&self, limit: usize) -> Option<(Info, Stats)> {
        let get = |target, limit| {
            self.ask_and_wait(Method::GET, target, Bytes::new(), (METRICS_TIMEOUT, limit))
                .ok()
        };
        let info = serde_json::from_slice(&get("/v1/info", INFO_MAX)?).ok()?;
        Some((
            info,
            serde_json::from_slice(&get("/v1/stats", limit)?).ok()?,
        ))
    }
}

/// Makes a router's process replace its configuration. With `others`, later requests for places are admitted, too.
pub(super) fn reload(
    place: &RemoteAddress,
    request: &ReloadRequest,
    others: bool,
) -> Result<ReloadReply, Failure> {
    let body = serde_json::to_vec(request).map_err(failed)?;
    let patience = if others { SHORT_TIMEOUT } else { LONG_TIMEOUT };
    let bounds = (patience, REPLY_MAX);
    let reply = place.ask_and_wait(Method::POST, "/v1/reload", body.into(), bounds)?;
    serde_json::from_slice(&reply).map_err(failed)
}
