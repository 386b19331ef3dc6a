//! Dispatch of requests: parses the body of a request, calls its handler, and serialises the response.
//!
//! It is generic over the request types: [`services`] visits `api::all_requests`, so that no request type can be left
//! out. `server` registers one route for each service.

use crate::callers::AuthenticatedCaller;
use crate::environment::Environment;
use crate::store::{Store, unavailable};
use api::all_requests;
use api::error::{ApiError, ErrorCode};
use api::request::{
    Content, Entry, Handle, Message, Method, Request, Stream, StreamLine, Visitor, Watch, WatchRequest,
};
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The response of a handler.
pub enum HandlerReply {
    /// One serialised document.
    Single(Content, Vec<u8>),
    /// A stream of JSON lines.
    Lines(Body),
}

type Reply = Pin<Box<dyn Future<Output = Result<HandlerReply, ApiError>> + Send>>;

/// One request type and its handler.
pub struct Service<S, E> {
    /// The request type: its name, route and caller.
    pub entry: Entry,
    /// Parses the body, calls the handler and serialises the response. The caller is checked once more,
    /// although the server has checked it before it read the body.
    pub handle: fn(AuthenticatedCaller<S, E>, Vec<u8>) -> Reply,
}

impl<S, E> Clone for Service<S, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, E> Copy for Service<S, E> {}

/// Returns one service for each request type.
pub fn services<S: Store, E: Environment>() -> Vec<Service<S, E>> {
    let mut services = ServiceList(Vec::new());
    all_requests::visit::<AuthenticatedCaller<S, E>>(&mut services);
    services.0
}

struct ServiceList<S, E>(Vec<Service<S, E>>);

impl<S: Store, E: Environment> Visitor<AuthenticatedCaller<S, E>> for ServiceList<S, E> {
    fn request<R: Request>(&mut self, entry: Entry)
    where
        AuthenticatedCaller<S, E>: Handle<R>,
    {
        let handle = |caller: AuthenticatedCaller<S, E>, body| -> Reply {
            Box::pin(async move {
                let response = caller.handle(parse_body::<R>(R::ROUTE.method, body)?).await?;
                Ok(HandlerReply::Single(R::Response::CONTENT, response.into_bytes()))
            })
        };
        self.0.push(Service { entry, handle });
    }

    fn watch<R: WatchRequest>(&mut self, entry: Entry)
    where
        AuthenticatedCaller<S, E>: Watch<R>,
    {
        let handle = |caller: AuthenticatedCaller<S, E>, body| -> Reply {
            Box::pin(async move {
                let stream = caller.watch(parse_body::<R>(R::ROUTE.method, body)?).await?;
                Ok(HandlerReply::Lines(Body::new(LineBody::<R, _> {
                    next: Some(next_line::<R, _>(stream)),
                    request: PhantomData,
                })))
            })
        };
        self.0.push(Service { entry, handle });
    }
}

/// The most maps and lists in the body of a request. A value of any type takes up to 632 bytes for each map, so that a body
/// of a few MiB becomes at most 126 MB. The largest record has 4 MiB, and the member of a relation, the smallest map in it,
/// 25 bytes: 168,000.
const CONTAINERS_MAX: usize = 200_000;

/// Counts the maps and lists of a JSON text, without parsing it.
fn container_count(json: &[u8]) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

fn require_few_containers(json: &[u8]) -> Result<(), ApiError> {
    let count = container_count(json);
    if count > CONTAINERS_MAX {
        let text = format!("invalid request body: {count} maps and lists, at most {CONTAINERS_MAX}");
        return Err(ApiError::new(ErrorCode::Invalid, text));
    }
    Ok(())
}

pub(crate) fn parse_body<M: Message>(method: Method, body: Vec<u8>) -> Result<M, ApiError> {
    let body = if method == Method::Get { b"null".to_vec() } else { body };
    if M::CONTENT == Content::Json {
        require_few_containers(&body)?;
    }
    M::from_bytes(body).map_err(|e| ApiError::new(ErrorCode::Invalid, format!("invalid request body: {e}")))
}

type NextLine<W> = Pin<Box<dyn Future<Output = (W, Vec<u8>, bool)> + Send>>;

fn next_line<R: WatchRequest, W: Stream<Item = R::Item> + Send + 'static>(mut stream: W) -> NextLine<W> {
    Box::pin(async move {
        let next =
            unavailable::catch_in_stream(stream.next()).await.unwrap_or_else(|error| Err(error.into()));
        let (line, more) = match next {
            Ok(item) => (StreamLine::Item(item), true),
            Err(error) => (StreamLine::Error(error), false),
        };
        let mut bytes = line.into_bytes();
        bytes.push(b'\n');
        (stream, bytes, more)
    })
}

/// A stream as a response body. The connection polls it: the next line is produced when the previous one has been
/// written, so nothing is queued for a slow reader.
struct LineBody<R, W> {
    next: Option<NextLine<W>>,
    request: PhantomData<fn() -> R>,
}

impl<R: WatchRequest, W: Stream<Item = R::Item> + Send + 'static> hyper::body::Body for LineBody<R, W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(pending) = &mut this.next else { return Poll::Ready(None) };
        let (stream, line, more) = ready!(pending.as_mut().poll(context));
        this.next = more.then(|| next_line::<R, W>(stream));
        Poll::Ready(Some(Ok(Frame::data(line.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_map_in_a_text_is_not_counted() {
        for (json, expected) in
            [(r#"{"a":[1,{}]}"#, 3), (r#"["[","\"{",{"\\":[]}]"#, 3), ("7", 0), (r#"{"a":"[[["#, 1)]
        {
            assert_eq!(container_count(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn a_body_of_too_many_maps_is_refused_before_it_is_parsed() {
        let body = |count: usize| format!("[{}{{}}]", "{},".repeat(count - 2)).into_bytes();
        assert_eq!(require_few_containers(&body(CONTAINERS_MAX)), Ok(()));
        let refused = require_few_containers(&body(CONTAINERS_MAX + 1)).expect_err("one too many");
        assert_eq!(refused.code, ErrorCode::Invalid);
        assert!(parse_body::<api::GetAbout>(Method::Post, body(CONTAINERS_MAX + 1)).is_err());
    }
}
