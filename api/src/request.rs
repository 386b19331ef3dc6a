//! What a request is, and the port through which all of them go.
//!
//! A request is a type: the message itself, its route, who may send it, and what is answered. Client, dispatch,
//! authority and the OpenAPI document are generic over these types; `list` leads to all of them. `Handle` is implemented by
//! the HTTP client (send and wait), by the controller's sessions (one implementation per request, in
//! `controller/src/handlers/`), and by tests that put something between the two.

use crate::error::ApiError;
use crate::schema::Types;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::future::Future;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Without a body.
    Get,
    Post,
}

/// Where a request is sent. `{model}` and `{agent}` in the path are filled in from the scope of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
}

impl Route {
    pub const fn get(path: &'static str) -> Route {
        Route { method: Method::Get, path }
    }

    pub const fn post(path: &'static str) -> Route {
        Route { method: Method::Post, path }
    }
}

/// Who may send a request (S13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The agent of the unit that the path names.
    UnitAgent,
    /// The agent of the machine that the path names. What is on the machine is the handler's question.
    MachineAgent,
    /// A machine with an enrolment token; the path names the machine.
    Enrolment,
    /// Users of the role read or a higher one.
    Reader,
    /// Users of the role write or a higher one.
    Writer,
    /// Users of the role admin.
    Admin,
}

/// How a message is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Json,
    /// The bytes of a charm archive.
    Bytes,
}

/// What is sent or answered: a JSON document, or the bytes of a charm archive.
pub trait Message: Sized + Send + Sync + 'static {
    const CONTENT: Content;
    fn into_bytes(self) -> Vec<u8>;
    /// The error says what is wrong with the bytes.
    fn from_bytes(bytes: Vec<u8>) -> Result<Self, serde_json::Error>;
    /// The JSON schema; none for bytes.
    fn schema(types: &Types) -> Option<Value>;
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Message for T {
    const CONTENT: Content = Content::Json;

    fn into_bytes(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("messages are plain data")
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&bytes)
    }

    fn schema(types: &Types) -> Option<Value> {
        Some(types.describe::<T>())
    }
}

/// A request that is answered once.
pub trait Request: Message {
    const ROUTE: Route;
    const CALLER: Caller;
    type Answer: Message;
}

/// A request that is answered by a stream, until either end closes it.
pub trait WatchRequest: Message {
    const ROUTE: Route;
    const CALLER: Caller;
    type Item: Message + Serialize + DeserializeOwned;
}

/// Whoever answers requests of one type: the port between the programs. Every request can also end in
/// `Unreachable`, `Unavailable` or `Unauthorised`.
pub trait Handle<R: Request> {
    fn handle(&self, request: R) -> impl Future<Output = Result<R::Answer, ApiError>> + Send;
}

/// Whoever opens streams of one type.
pub trait Watch<R: WatchRequest> {
    type Stream: Stream<Item = R::Item> + Send;
    fn watch(&self, request: R) -> impl Future<Output = Result<Self::Stream, ApiError>> + Send;
}

/// A stream under way. Dropping it ends it.
pub trait Stream {
    type Item;
    /// The next item; an error ends the stream. May be dropped before it is over: the next call answers what that one
    /// would have.
    fn next(&mut self) -> impl Future<Output = Result<Self::Item, ApiError>> + Send;
}

/// A port whose requests are about one model.
pub trait InModel {
    /// The same port for the model of this name or uuid.
    #[must_use]
    fn in_model(&self, model: &str) -> Self;
}

/// One line of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line<T> {
    Item(T),
    /// The last one.
    Error(ApiError),
}

/// What is known of a request type without a value of it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name of the type.
    pub name: &'static str,
    pub route: Route,
    pub caller: Caller,
    pub takes: Content,
    pub gives: ResponseBody,
    /// JSON schemas of what it takes and gives; none for bytes.
    pub input: fn(&Types) -> Option<Value>,
    pub output: fn(&Types) -> Option<Value>,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    AppliedOnce(Content),
    /// One JSON [`Line`] after the other, until either end closes.
    Lines,
}

impl Entry {
    pub const fn of<R: Request>(name: &'static str) -> Entry {
        let gives = ResponseBody::AppliedOnce(R::Answer::CONTENT);
        let (input, output) = (R::schema, R::Answer::schema);
        Entry { name, route: R::ROUTE, caller: R::CALLER, takes: R::CONTENT, gives, input, output }
    }

    pub const fn of_watch<R: WatchRequest>(name: &'static str) -> Entry {
        let (input, output) = (R::schema, <Line<R::Item> as Message>::schema);
        let gives = ResponseBody::Lines;
        Entry { name, route: R::ROUTE, caller: R::CALLER, takes: R::CONTENT, gives, input, output }
    }
}

/// Is shown request types, with the port that answers them.
pub trait Visitor<P> {
    fn request<R: Request>(&mut self, entry: Entry)
    where
        P: Handle<R>;
    fn watch<R: WatchRequest>(&mut self, entry: Entry)
    where
        P: Watch<R>;
}

/// Declares the requests of one noun, one a line, and the trait of a port that answers all of them:
///
/// ```text
/// requests! { ActionRequests {
///     GetAction = post "/v1/models/{model}/action", Reader => ActionInfo;
/// } }
/// ```
macro_rules! requests {
    (
        $port:ident { $($request:ident = $method:ident $path:literal, $caller:ident => $answer:ty;)* }
        $(watch { $watch:ident = $watch_method:ident $watch_path:literal, $watch_caller:ident => $item:ty; })?
    ) => {
        $(impl $crate::request::Request for $request {
            const ROUTE: $crate::request::Route = $crate::request::Route::$method($path);
            const CALLER: $crate::request::Caller = $crate::request::Caller::$caller;
            type Answer = $answer;
        })*

        $(impl $crate::request::WatchRequest for $watch {
            const ROUTE: $crate::request::Route = $crate::request::Route::$watch_method($watch_path);
            const CALLER: $crate::request::Caller = $crate::request::Caller::$watch_caller;
            type Item = $item;
        })?

        /// Whoever answers all requests of this file.
        pub trait $port: $($crate::request::Handle<$request> +)* $($crate::request::Watch<$watch>)? {
            /// Shows `visitor` these requests.
            fn visit(visitor: &mut impl $crate::request::Visitor<Self>)
            where
                Self: Sized,
            {
                $(visitor.request::<$request>($crate::request::Entry::of::<$request>(stringify!($request)));)*
                $(visitor.watch::<$watch>($crate::request::Entry::of_watch::<$watch>(stringify!($watch)));)?
            }
        }

        impl<P: $($crate::request::Handle<$request> +)* $($crate::request::Watch<$watch>)?> $port for P {}
    };
}
pub(crate) use requests;
