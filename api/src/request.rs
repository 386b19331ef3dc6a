//! The types of requests, and the port through which all requests are sent.
//!
//! A request is a type: it contains the message, its route, who may send it, and the type of the response. The
//! client, the dispatch, the authorisation and the OpenAPI document are generic over these types; `all_requests`
//! contains all of them. `Handle` is implemented by the HTTPS client (send and wait), by the authenticated callers of
//! the controller (one implementation per request, in `controller/src/handlers/`), and by test doubles between the
//! two.

use crate::error::{ApiError, ErrorCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::future::Future;

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET, without a body.
    Get,
    /// POST, with the request as body.
    Post,
}

/// The method and path of a request. The client replaces `{model}` and `{agent}` in the path by its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with placeholders.
    pub path: &'static str,
}

impl Route {
    /// A GET route. The path begins with the API version, or the build fails.
    pub const fn get(path: &'static str) -> Route {
        Route::new(Method::Get, path)
    }

    /// A POST route. The path begins with the API version, or the build fails.
    pub const fn post(path: &'static str) -> Route {
        Route::new(Method::Post, path)
    }

    const fn new(method: Method, path: &'static str) -> Route {
        assert!(is_versioned(path), "the path does not begin with the API version");
        Route { method, path }
    }
}

/// Whether a path begins with `/v1/`, or what `API_VERSION` is.
const fn is_versioned(path: &str) -> bool {
    let (path, version) = (path.as_bytes(), crate::API_VERSION.as_bytes());
    let mut index = 0;
    while index < version.len() {
        if path[index + 1] != version[index] {
            return false;
        }
        index += 1;
    }
    path[0] == b'/' && path[index + 1] == b'/'
}

/// Who may send a request (S13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The agent of the unit that the path names.
    UnitAgent,
    /// The agent of the machine that the path names. The handler checks what is assigned to the machine.
    MachineAgent,
    /// The agent of the machine that the path names, also after the machine was removed while the agent was away.
    UninstallingMachineAgent,
    /// A machine with an enrolment token; the path names the machine.
    Enrolment,
    /// Users with the role read or a higher one.
    Reader,
    /// Users with the role write or a higher one.
    Writer,
    /// Users with the role admin.
    Admin,
}

/// How a message is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A JSON document.
    Json,
    /// The bytes of a charm archive, or of the file of a resource.
    Bytes,
}

/// A request or a response: a JSON document, or the bytes of a charm archive.
pub trait Message: JsonSchema + Sized + Send + Sync + 'static {
    /// The encoding.
    const CONTENT: Content;
    /// Encodes the message.
    fn into_bytes(self) -> Vec<u8>;
    /// Decodes a message. The error describes what is wrong with the bytes.
    fn from_bytes(bytes: Vec<u8>) -> Result<Self, serde_json::Error>;
}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> Message for T {
    const CONTENT: Content = Content::Json;

    fn into_bytes(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("messages are plain data")
    }

    fn from_bytes(bytes: Vec<u8>) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&bytes)
    }
}

/// A request with one response.
pub trait Request: Message {
    /// Where the request is sent.
    const ROUTE: Route;
    /// Who may send it.
    const CALLER: Caller;
    /// The response.
    type Response: Message;
}

/// A request with a stream of items as response, until either side closes it.
pub trait WatchRequest: Message {
    /// Where the request is sent.
    const ROUTE: Route;
    /// Who may send it.
    const CALLER: Caller;
    /// One item of the stream.
    type Item: Message + Serialize + DeserializeOwned;
}

/// The port between the programs: answers requests of one type. Every request can also fail with `Unreachable`,
/// `Unavailable` or `Unauthorised`.
pub trait Handle<R: Request> {
    /// Sends or answers the request.
    fn handle(&self, request: R) -> impl Future<Output = Result<R::Response, ApiError>> + Send;
}

/// Opens streams of one type.
pub trait Watch<R: WatchRequest> {
    /// The stream.
    type Stream: Stream<Item = R::Item> + Send;
    /// Opens the stream.
    fn watch(&self, request: R) -> impl Future<Output = Result<Self::Stream, ApiError>> + Send;
}

/// An open stream. Dropping it closes it.
pub trait Stream {
    /// One item of the stream.
    type Item;
    /// Returns the next item; an error ends the stream. The future may be dropped before it completes: the next
    /// call then returns the item that it would have returned.
    fn next(&mut self) -> impl Future<Output = Result<Self::Item, ApiError>> + Send;
    /// Closes a stream that should have sent something by now. Returns the error that ends it.
    fn give_up(self) -> ApiError
    where
        Self: Sized,
    {
        ApiError::new(ErrorCode::Unreachable, "the stream is silent")
    }
}

/// A port whose requests concern one model.
pub trait InModel {
    /// The same port for the model of this name or uuid.
    #[must_use]
    fn in_model(&self, model: &str) -> Self;
}

/// One line of a stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "{T}Line")]
pub enum StreamLine<T> {
    /// The next item.
    Item(T),
    /// The last line: why the stream ended.
    Error(ApiError),
}

/// The description of a request type.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name of the type.
    pub name: &'static str,
    /// The route.
    pub route: Route,
    /// Who may send it.
    pub caller: Caller,
    /// The encoding of the request.
    pub request_content: Content,
    /// The encoding of the response.
    pub response_body: ResponseBody,
    /// What the request does: the documentation of its type.
    pub description: fn() -> String,
    /// The JSON schema of the request, which may refer to definitions of the generator.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// The JSON schema of the response, or of one line of it.
    pub output: fn(&mut SchemaGenerator) -> Schema,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// One message, encoded like this.
    Single(Content),
    /// A stream of JSON [`StreamLine`]s, until either side closes it.
    Lines,
}

impl Entry {
    /// The description of a request type.
    pub const fn of<R: Request>(name: &'static str) -> Entry {
        let response_body = ResponseBody::Single(R::Response::CONTENT);
        Entry::new::<R, R::Response>(name, R::ROUTE, R::CALLER, response_body)
    }

    /// The description of a watch request type.
    pub const fn of_watch<R: WatchRequest>(name: &'static str) -> Entry {
        Entry::new::<R, StreamLine<R::Item>>(name, R::ROUTE, R::CALLER, ResponseBody::Lines)
    }

    const fn new<R: Message, O: JsonSchema>(
        name: &'static str,
        route: Route,
        caller: Caller,
        response_body: ResponseBody,
    ) -> Entry {
        Entry {
            name,
            route,
            caller,
            request_content: R::CONTENT,
            response_body,
            description: description::<R>,
            input: SchemaGenerator::subschema_for::<R>,
            output: SchemaGenerator::subschema_for::<O>,
        }
    }
}

/// The documentation of a type, in Markdown.
fn description<T: JsonSchema>() -> String {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Visits request types; `P` is a port that answers all of them.
pub trait Visitor<P> {
    /// Visits a request with one response.
    fn request<R: Request>(&mut self, entry: Entry)
    where
        P: Handle<R>;
    /// Visits a request with a stream of items.
    fn watch<R: WatchRequest>(&mut self, entry: Entry)
    where
        P: Watch<R>;
}

/// Declares the requests of one noun, one per line, and the trait of a port that answers all of them:
///
/// ```text
/// requests! { ActionRequests {
///     GetAction = post "/v1/models/{model}/action", Reader => ActionDoc;
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
            type Response = $answer;
        })*

        $(impl $crate::request::WatchRequest for $watch {
            const ROUTE: $crate::request::Route = $crate::request::Route::$watch_method($watch_path);
            const CALLER: $crate::request::Caller = $crate::request::Caller::$watch_caller;
            type Item = $item;
        })?

        /// A port that answers all requests of this noun.
        pub trait $port: $($crate::request::Handle<$request> +)* $($crate::request::Watch<$watch>)? {
            /// Calls `visitor` for each of these requests.
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
