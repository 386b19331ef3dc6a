//! The messages of etcd's gRPC API (version 3) that the client uses, written by hand: no protoc is needed to build.
//!
//! Field numbers are those of etcd's `rpc.proto` and `kv.proto`. Fields that this client neither sets nor reads are left
//! out; protobuf skips unknown fields. Enumerations are transmitted as `int32`. Used by the modules of the engine.

use prost::{Message, Oneof};

/// The common part of all responses.
#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
    /// The id of the cluster. A cluster that is restored from a snapshot has another one.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The revision of etcd when the request was executed; of a transaction that writes, its own.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// A key with its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// The whole key, with the prefix.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The revision of the last write of the key. In a deletion, the revision of the deletion.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// The lease with which the key ends; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// Reads keys.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The exclusive end of the range; empty for a single key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The most keys of the response; 0 without a limit.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// The revision to read at; 0 for the newest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Whether the response leaves out the values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
}

/// The response to [`RangeRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The keys, in order.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// Whether the limit has left out keys.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

/// Writes a key.
#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The new value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease with which the key ends; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// Deletes a key, or a range of keys.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The exclusive end of the range; empty for a single key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    /// The operation.
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    pub operation: Option<Operation>,
}

/// The operations of a transaction.
#[derive(Clone, PartialEq, Oneof)]
pub enum Operation {
    /// Reads.
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    /// Writes.
    #[prost(message, tag = "2")]
    Put(PutRequest),
    /// Deletes.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

/// The result of one operation. Only that of a read has content that this client uses.
#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    /// The result of a read.
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

/// `Compare.result`: the value is equal.
pub const EQUAL: i32 = 0;
/// `Compare.result`: the value is greater.
pub const GREATER: i32 = 1;
/// `Compare.result`: the value is less.
pub const LESS: i32 = 2;
/// `Compare.target`: the revision of the last write. It is 0 for an absent key and for an empty range.
pub const MOD_REVISION: i32 = 2;

/// A precondition of a transaction. For a range, it must hold for every key in it; an empty range compares like an absent
/// key.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// How to compare.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// What to compare.
    #[prost(int32, tag = "2")]
    pub target: i32,
    /// The first key.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    /// The operand.
    #[prost(oneof = "Operand", tags = "6")]
    pub operand: Option<Operand>,
    /// The exclusive end of the range; empty for a single key.
    #[prost(bytes = "vec", tag = "64")]
    pub range_end: Vec<u8>,
}

/// The operand of a comparison.
#[derive(Clone, PartialEq, Oneof)]
pub enum Operand {
    /// For [`MOD_REVISION`].
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

/// A transaction: all comparisons hold and `success` is executed, or `failure` is.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    /// The preconditions.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// The operations if they hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// The operations if one does not hold.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// The response to [`TxnRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Whether the preconditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// The results of the operations.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// A message to the watch service. This client opens one watch for each stream and ends it with the stream.
#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    /// Starts a watch.
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreateRequest>,
}

/// Starts a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The exclusive end of the range.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The first revision of the events.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// Whether the events of one revision may come in several messages ([`WatchResponse::fragment`]).
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// Events of a watch, or its end.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Whether the watch has ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// If it has ended because its revision was compacted: the oldest revision of etcd; otherwise 0.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    /// Why it has ended.
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// Whether the next message continues this one.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    /// The events, in the order of revisions.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// `Event.kind` of a deletion; a write is 0.
pub const DELETE: i32 = 1;

/// The change of one key.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// Whether it was written or deleted.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The key; without a value if it was deleted.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

/// Creates a lease.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    /// How long it lasts without a renewal, in seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
}

/// The response to [`LeaseGrantRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    /// The id of the lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
}

/// Ends a lease, and deletes its keys.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeRequest {
    /// The id of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The response to [`LeaseRevokeRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

/// Renews a lease.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseKeepAliveRequest {
    /// The id of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The response to [`LeaseKeepAliveRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct LeaseKeepAliveResponse {
    /// How long the lease lasts from now on, in seconds; 0 if it has ended.
    #[prost(int64, tag = "3")]
    pub seconds: i64,
}

/// Reads the status of one member.
#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

/// The response to [`StatusRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The version of the member, for example `3.4.23`.
    #[prost(string, tag = "2")]
    pub version: String,
}
