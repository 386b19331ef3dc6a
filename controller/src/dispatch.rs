//! From the bytes of a request to its handler, and from the answer to bytes again: generic over the request types.

use crate::environment::Environment;
use crate::session::Session;
use crate::store::Store;
use api::error::{ApiError, ErrorCode};
use api::list;
use api::request::{
    Content, Entry, Handle, Line, Message, Method, Request, Stream, Visitor, Watch, WatchRequest,
};
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What goes back.
pub enum HandlerReply {
    Single(Content, Vec<u8>),
    Lines(Body),
}

type Answer = Pin<Box<dyn Future<Output = Result<HandlerReply, ApiError>> + Send>>;

/// One request type and what answers it.
pub struct Service<S, O> {
    pub entry: Entry,
    /// Parses the body, calls the handler and serialises the answer. The handler's session checks the caller; the
    /// server has checked it before it read the body.
    pub answer: fn(Session<S, O>, Vec<u8>) -> Answer,
}

impl<S, O> Clone for Service<S, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, O> Copy for Service<S, O> {}

/// All request types with what answers them.
pub fn services<S: Store, O: Environment>() -> Vec<Service<S, O>> {
    let mut services = ServiceList(Vec::new());
    list::visit::<Session<S, O>>(&mut services);
    services.0
}

struct ServiceList<S, O>(Vec<Service<S, O>>);

impl<S: Store, O: Environment> Visitor<Session<S, O>> for ServiceList<S, O> {
    fn request<R: Request>(&mut self, entry: Entry)
    where
        Session<S, O>: Handle<R>,
    {
        let answer = |session: Session<S, O>, body| -> Answer {
            Box::pin(async move {
                let answer = session.handle(parse_body::<R>(R::ROUTE.method, body)?).await?;
                Ok(HandlerReply::Single(R::Answer::CONTENT, answer.into_bytes()))
            })
        };
        self.0.push(Service { entry, answer });
    }

    fn watch<R: WatchRequest>(&mut self, entry: Entry)
    where
        Session<S, O>: Watch<R>,
    {
        let answer = |session: Session<S, O>, body| -> Answer {
            Box::pin(async move {
                let stream = session.watch(parse_body::<R>(R::ROUTE.method, body)?).await?;
                Ok(HandlerReply::Lines(Body::new(LineBody::<R, _> {
                    next: Some(next_line::<R, _>(stream)),
                    request: PhantomData,
                })))
            })
        };
        self.0.push(Service { entry, answer });
    }
}

fn parse_body<M: Message>(method: Method, body: Vec<u8>) -> Result<M, ApiError> {
    let body = if method == Method::Get { b"null".to_vec() } else { body };
    M::from_bytes(body)
        .map_err(|e| ApiError::new(ErrorCode::Invalid, format!("the request is not understood: {e}")))
}

type NextLine<W> = Pin<Box<dyn Future<Output = (W, Vec<u8>, bool)> + Send>>;

fn next_line<R: WatchRequest, W: Stream<Item = R::Item> + Send + 'static>(mut stream: W) -> NextLine<W> {
    Box::pin(async move {
        let (line, more) = match stream.next().await {
            Ok(item) => (Line::Item(item), true),
            Err(error) => (Line::Error(error), false),
        };
        let mut bytes = line.into_bytes();
        bytes.push(b'\n');
        (stream, bytes, more)
    })
}

/// A stream as a body. The connection pulls: the next line is made when the one before is written, so a slow reader
/// has nothing queued for it.
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
