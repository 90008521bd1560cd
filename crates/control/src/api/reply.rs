//! Answers.

use super::Refusal;
use crate::view;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use hyper::{Response, StatusCode, header};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

pub(super) type Reply = Response<Either<Full<Bytes>, Pieces>>;

/// Response body made of pieces.
pub(super) struct Pieces(Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn reply(status: StatusCode, kind: &'static str, body: Either<Full<Bytes>, Pieces>) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    reply
}

fn full_body(body: impl Into<Bytes>) -> Either<Full<Bytes>, Pieces> {
    Either::Left(Full::new(body.into()))
}

/// Content types of answers; the one for text is that of Prometheus.
pub(super) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(super) const JSON: &str = "application/json";
pub(super) const CAPTURE: &str = "application/x-pcapng";

/// Answer with plain text.
pub(super) fn text(text: String) -> Reply {
    reply(StatusCode::OK, TEXT, full_body(text))
}

pub(super) fn json(value: &impl Serialize) -> Result<Reply, Refusal> {
    let body = serde_json::to_vec(value).map_err(|e| Refusal::new(500, e.to_string()))?;
    Ok(reply(StatusCode::OK, JSON, full_body(body)))
}

pub(super) fn stream(kind: &'static str, pieces: Receiver<Bytes>) -> Reply {
    reply(StatusCode::OK, kind, Either::Right(Pieces(pieces)))
}

pub(super) fn refused(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let wrong = view::Wrong {
        error: refusal.text.clone(),
    };
    let body = serde_json::to_vec(&wrong).unwrap_or_default();
    reply(status, JSON, full_body(body))
}
