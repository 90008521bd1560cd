//! The API: HTTP/1.1 and JSON over the router's UNIX socket; over TCP only `/metrics`.
//!
//! | method and path | what |
//! |---|---|
//! | `GET /v1/routers` | the routers of the process ([`Router`](crate::view::Router)) |
//! | `GET /v1/info` | about the process ([`Info`](crate::view::Info)) |
//! | `GET /v1/elements` | elements and handlers ([`Element`](crate::view::Element)) |
//! | `GET /v1/plan` | the plan, as text |
//! | `GET /v1/stats` | all counts ([`Stats`](crate::view::Stats)) |
//! | `POST /v1/turns` | each worker's longest turn since the last such request, and how it divides |
//! | `GET /v1/handlers/E.H?argument=A` | reads a handler, text |
//! | `PUT /v1/handlers/E.H` | writes a handler; the body is the value |
//! | `GET /v1/capture?point=P&drops=E&count=N&filter=F&snaplen=N` | packets at edges and drops, pcapng |
//! | `GET /v1/trace?count=N&from=E&snaplen=N&seconds=N` | the way of packets ([`TracedPacket`](crate::view::TracedPacket)) |
//! | `GET /metrics` | all counts, for Prometheus |
//! | `POST /v1/reload` | replaces the configuration ([`ReloadRequest`](crate::view::ReloadRequest)) |
//! | `POST /v1/stop` | ends the process |
//!
//! With `/v1/routers/NAME/` in the place of `/v1/` a request is about that router: the same answers, its own counts; `info`
//! is about it, `reload` replaces its configuration, `stop` ends it alone. Without a name the only router is meant; where
//! there are several, `info`, `stop` and `/metrics` (with a label `router`) are the whole process's, and `reload` reads the
//! file that describes them.
//!
//! Errors are 4xx or 5xx with `{"error": "a sentence"}`. Whatever waits for workers runs on a
//! blocking thread, a bounded number at a time, so a slow or hostile client holds up neither the
//! workers nor other clients.

mod reply;
pub mod request;

use crate::describe::describe;
use crate::process::Process;
use crate::state::{Control, Failure};
use crate::{capture, trace, view};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reply::{Reply, json, refused, stream, text};
use request::Request;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Why a request was refused: a status of HTTP and a sentence.
pub type Refusal = Failure;

/// Largest value that a handler takes, in bytes: a million routes.
const BODY_MAX: usize = 64 << 20;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Wait after a failed accept: out of descriptors, most likely, until clients leave.
const CALM: Duration = Duration::from_millis(100);
/// Clients at a time; more wait.
const CLIENTS_MAX: usize = 64;
/// Requests at a time that wait for workers.
const WORKING_MAX: usize = 8;

/// Captures and traces at a time.
const WATCHING_MAX: usize = 4;
/// Pieces of a capture that wait for a slow client.
const PIECES_MAX: usize = 16;

/// The API of a process.
#[derive(Clone)]
pub(crate) struct Api {
    process: Arc<Process>,
    clients: Arc<Semaphore>,
    working: Arc<Semaphore>,
    watching: Arc<Semaphore>,
    /// Only metrics are told.
    metrics_only: bool,
}

impl Api {
    pub(crate) fn new(process: Arc<Process>) -> Api {
        Api {
            process,
            clients: Arc::new(Semaphore::new(CLIENTS_MAX)),
            working: Arc::new(Semaphore::new(WORKING_MAX)),
            watching: Arc::new(Semaphore::new(WATCHING_MAX)),
            metrics_only: false,
        }
    }

    /// Serves metrics to clients of a TCP socket, for ever.
    pub(crate) async fn serve_metrics(self, listener: tokio::net::TcpListener) -> Infallible {
        let api = Api {
            metrics_only: true,
            ..self
        };
        loop {
            let place = api.place().await;
            match listener.accept().await {
                Ok((stream, _)) => api.clone().spawn(stream, place),
                Err(_) => tokio::time::sleep(CALM).await,
            }
        }
    }

    /// Serves the clients of a UNIX socket, for ever.
    pub(crate) async fn serve(self, listener: tokio::net::UnixListener) -> Infallible {
        loop {
            let place = self.place().await;
            match listener.accept().await {
                Ok((stream, _)) => self.clone().spawn(stream, place),
                Err(_) => tokio::time::sleep(CALM).await,
            }
        }
    }

    /// A place for one more client.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore.
        Arc::clone(&self.clients).acquire_owned().await.ok()
    }

    fn spawn(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        place: Option<OwnedSemaphorePermit>,
    ) {
        tokio::spawn(async move {
            self.connection(stream).await;
            drop(place);
        });
    }

    async fn connection(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request| async {
            Ok::<_, Infallible>(self.answer(request).await.unwrap_or_else(|e| refused(&e)))
        });
        // What goes wrong on a connection is the client's affair.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(&self, request: hyper::Request<Incoming>) -> Result<Reply, Refusal> {
        let uri = request.uri();
        let (name, wanted) = request::parse(request.method().as_str(), uri.path(), uri.query())?;
        if self.metrics_only && wanted != Request::Metrics {
            return Err(Refusal::new(403, "only /metrics is served here"));
        }
        // What is the process's.
        match (&name, &wanted) {
            (None, Request::Metrics) => return self.work(|p| Ok(text(p.metrics()?))).await,
            (None, Request::Info) => return self.work(|p| json(&p.info())).await,
            (None, Request::Routers) => return self.work(|p| json(&p.list_routers()?)).await,
            (None, Request::Stop) => {
                self.process.stop();
                return Ok(text("stopping\n".to_owned()));
            }
            (_, Request::Reload) => {
                let body = body(request).await?;
                let asked: view::ReloadRequest = serde_json::from_slice(&body)
                    .map_err(|e| Refusal::new(400, format!("this is no reload request: {e}")))?;
                let run = move |p: &Process| json(&p.reload(name.as_deref(), &asked)?);
                return self.work(run).await;
            }
            (Some(name), Request::Stop) => {
                let name = name.clone();
                let run = move |p: &Process| {
                    p.stop_router(&name)?;
                    Ok(text("stopping\n".to_owned()))
                };
                return self.work(run).await;
            }
            _ => {}
        }
        let router = self.process.router(name.as_deref())?;
        match wanted {
            Request::Capture(spec) => self.capture(router, spec).await,
            Request::Trace(spec) => {
                let place = self.watch()?;
                let run = move |_: &Process| json(&trace::run(&router, &spec)?);
                self.blocking(place, run).await
            }
            Request::Write { path } => {
                let value = String::from_utf8(body(request).await?.into())
                    .map_err(|_| Refusal::new(400, "the value is not UTF-8"))?;
                self.work(move |_| Ok(text(router.write(&path, &value)?)))
                    .await
            }
            wanted => self.work(move |_| ask(&router, wanted)).await,
        }
    }

    /// Runs what may wait for workers on a blocking thread.
    async fn work(
        &self,
        run: impl FnOnce(&Process) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<Reply, Refusal> {
        let place = Arc::clone(&self.working).acquire_owned().await;
        let closed = |_| Refusal::new(503, "the router ends");
        self.blocking(place.map_err(closed)?, run).await
    }

    async fn blocking(
        &self,
        place: OwnedSemaphorePermit,
        run: impl FnOnce(&Process) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<Reply, Refusal> {
        let process = Arc::clone(&self.process);
        let done = tokio::task::spawn_blocking(move || {
            let reply = run(&process);
            drop(place);
            reply
        });
        let broken = |_| Refusal::new(500, "the request failed inside the router");
        done.await.map_err(broken)?
    }

    /// A place for a capture or trace.
    fn watch(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let busy = |_| {
            let text = format!("{WATCHING_MAX} captures and traces run already: end one");
            Refusal::new(429, text)
        };
        Arc::clone(&self.watching).try_acquire_owned().map_err(busy)
    }

    async fn capture(&self, control: Arc<Control>, spec: capture::Spec) -> Result<Reply, Refusal> {
        let place = self.watch()?;
        let (to, pieces) = mpsc::channel(PIECES_MAX);
        let (started, start) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(move || {
            match capture::Capture::start(&control, spec) {
                Err(refusal) => drop(started.send(Err(refusal))),
                Ok(capture) => {
                    drop(started.send(Ok(())));
                    capture.run(&to);
                }
            }
            drop(place);
        });
        let broken = |_| Refusal::new(500, "the capture failed inside the router");
        start.await.map_err(broken)??;
        Ok(stream("application/x-pcapng", pieces))
    }
}

/// What a router is asked that has no body and changes nothing but its own notes.
fn ask(router: &Control, wanted: Request) -> Result<Reply, Refusal> {
    match wanted {
        Request::Info => json(&router.info()),
        Request::Elements => json(&router.elements()),
        Request::Plan => Ok(text(describe(&router.router().plan()).to_string())),
        Request::Stats => json(&router.stats()?),
        Request::Turns => json(&router.longest_turns()),
        Request::Read { path, argument } => Ok(text(router.read(&path, &argument)?)),
        _ => Err(Refusal::new(404, "this is no router's")),
    }
}

/// A request's body, if it comes in time and is not too large.
async fn body(request: hyper::Request<Incoming>) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::new(413, format!("at most {} MiB are taken", BODY_MAX >> 20));
    let body = request.into_body();
    // Who announces too much need not send it.
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(PATIENCE, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(Refusal::new(408, "the request came too slowly")),
    }
}
