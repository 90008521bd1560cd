//! The API: HTTP/1.1 and JSON over the router's UNIX socket; over TCP only `/metrics`.
//!
//! | method and path | what |
//! |---|---|
//! | `GET /v1/info` | about the process ([`Info`](crate::view::Info)) |
//! | `GET /v1/elements` | elements and handlers ([`Element`](crate::view::Element)) |
//! | `GET /v1/plan` | the plan, as text |
//! | `GET /v1/stats` | all counts ([`Stats`](crate::view::Stats)) |
//! | `GET /v1/handlers/E.H?argument=A` | reads a handler, text |
//! | `PUT /v1/handlers/E.H` | writes a handler; the body is the value |
//! | `POST /v1/reload` | replaces the configuration ([`ReloadRequest`](crate::view::ReloadRequest)) |
//! | `POST /v1/stop` | ends the router |
//!
//! Errors are 4xx or 5xx with `{"error": "a sentence"}`. Whatever waits for workers runs on a
//! blocking thread, a bounded number at a time, so a slow or hostile client holds up neither the
//! workers nor other clients.

pub mod request;

use crate::state::{Control, Failure};
use crate::view;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use request::Request;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

/// Why a request was refused: a status of HTTP and a sentence.
pub type Refusal = Failure;

/// Largest value that a handler takes, in bytes: a million routes.
const BODY_MAX: usize = 64 << 20;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients at a time; more wait.
const CLIENTS_MAX: usize = 64;
/// Requests at a time that wait for workers.
const WORKING_MAX: usize = 8;

type Body = Full<Bytes>;
type Reply = Response<Body>;

/// The API of one router.
#[derive(Clone)]
pub(crate) struct Api {
    control: Arc<Control>,
    clients: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

impl Api {
    pub(crate) fn new(control: Arc<Control>) -> Api {
        Api {
            control,
            clients: Arc::new(Semaphore::new(CLIENTS_MAX)),
            working: Arc::new(Semaphore::new(WORKING_MAX)),
        }
    }

    /// Serves the clients of a UNIX socket, for ever.
    pub(crate) async fn serve(self, listener: tokio::net::UnixListener) -> Infallible {
        loop {
            let place = Arc::clone(&self.clients).acquire_owned().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let api = self.clone();
                    tokio::spawn(async move {
                        api.connection(stream).await;
                        drop(place);
                    });
                }
                // Out of descriptors, most likely: wait for clients to leave.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
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
        let wanted = request::parse(request.method().as_str(), uri.path(), uri.query())?;
        match wanted {
            Request::Info => self.work(|c| json(&c.info())).await,
            Request::Elements => self.work(|c| json(&c.elements())).await,
            Request::Plan => self.work(|c| Ok(text(c.router().plan().to_string()))).await,
            Request::Stats => self.work(|c| json(&c.stats()?)).await,
            Request::Read { path, argument } => {
                self.work(move |c| Ok(text(c.read(&path, &argument)?)))
                    .await
            }
            Request::Write { path } => {
                let value = String::from_utf8(body(request).await?.into())
                    .map_err(|_| Refusal::new(400, "the value is not UTF-8"))?;
                self.work(move |c| Ok(text(c.write(&path, &value)?))).await
            }
            Request::Reload => {
                let body = body(request).await?;
                let asked: view::ReloadRequest = serde_json::from_slice(&body)
                    .map_err(|e| Refusal::new(400, format!("this is no reload request: {e}")))?;
                self.work(move |c| json(&c.reload(&asked)?)).await
            }
            Request::Stop => {
                self.control.stop();
                Ok(text("stopping\n".to_owned()))
            }
        }
    }

    /// Runs what may wait for workers on a blocking thread.
    async fn work(
        &self,
        run: impl FnOnce(&Control) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<Reply, Refusal> {
        let place = Arc::clone(&self.working).acquire_owned().await;
        let control = Arc::clone(&self.control);
        let done = tokio::task::spawn_blocking(move || {
            let reply = run(&control);
            drop(place);
            reply
        });
        let broken = |_| Refusal::new(500, "the request failed inside the router");
        done.await.map_err(broken)?
    }
}

/// A request's body, if it comes in time and is not too large.
async fn body(request: hyper::Request<Incoming>) -> Result<Bytes, Refusal> {
    let collect = Limited::new(request.into_body(), BODY_MAX).collect();
    match tokio::time::timeout(PATIENCE, collect).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(Refusal::new(
            413,
            format!("at most {} MiB are taken", BODY_MAX >> 20),
        )),
        Err(_) => Err(Refusal::new(408, "the request came too slowly")),
    }
}

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    reply
}

fn text(text: String) -> Reply {
    reply(StatusCode::OK, "text/plain; charset=utf-8", text)
}

fn json(value: &impl Serialize) -> Result<Reply, Refusal> {
    let body = serde_json::to_vec(value).map_err(|e| Refusal::new(500, e.to_string()))?;
    Ok(reply(StatusCode::OK, "application/json", body))
}

fn refused(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let wrong = view::Wrong {
        error: refusal.text.clone(),
    };
    let body = serde_json::to_vec(&wrong).unwrap_or_default();
    reply(status, "application/json", body)
}
