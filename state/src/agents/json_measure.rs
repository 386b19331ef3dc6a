//! Measures a message as JSON without building it: its bytes, its depth, and its first number that is too large.
//!
//! A copy as a tree of values would take a hundred times the memory of a message that nests maps of one entry. Used by
//! `record_validation` and `record_bounds`, which do not trust what they measure.

use crate::unit::writes::Counted;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use std::io;

/// The measure of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonMeasure {
    /// The length of its compact JSON text in bytes.
    pub(super) bytes: usize,
    /// The number of maps and lists around its innermost value.
    pub(super) depth: usize,
    /// The first integer whose absolute value exceeds the limit, in decimal.
    pub(super) too_large: Option<String>,
}

impl JsonMeasure {
    /// Measures a message; `number_max` is the largest absolute value of an integer.
    pub(super) fn of(message: &impl Serialize, number_max: u64) -> JsonMeasure {
        let (mut written, mut open) = (Counted(0), Open { number_max, ..Open::default() });
        let mut serializer = Serializer::with_formatter(&mut written, &mut open);
        message.serialize(&mut serializer).expect("messages are plain data");
        JsonMeasure { bytes: written.0, depth: open.depth_max, too_large: open.too_large }
    }
}

/// The maps and lists that are open.
#[derive(Default)]
struct Open {
    depth: usize,
    depth_max: usize,
    number_max: u64,
    too_large: Option<String>,
}

impl Open {
    fn begin(&mut self) {
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
    }

    fn number(&mut self, size: u128, text: impl FnOnce() -> String) {
        if size > u128::from(self.number_max) && self.too_large.is_none() {
            self.too_large = Some(text());
        }
    }
}

impl Formatter for &mut Open {
    fn write_i64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        self.number(value.unsigned_abs().into(), || value.to_string());
        write!(writer, "{value}")
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        self.number(value.into(), || value.to_string());
        write!(writer, "{value}")
    }

    fn write_i128<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i128) -> io::Result<()> {
        self.number(value.unsigned_abs(), || value.to_string());
        write!(writer, "{value}")
    }

    fn write_u128<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u128) -> io::Result<()> {
        self.number(value, || value.to_string());
        write!(writer, "{value}")
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin();
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin();
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_depth_and_the_first_number_that_is_too_large_are_measured() {
        let message = json!({ "a": [1, { "b": "text" }], "c": -7, "d": null });
        let expected = JsonMeasure { bytes: message.to_string().len(), depth: 3, too_large: None };
        assert_eq!(JsonMeasure::of(&message, 7), expected);
        let (max, beyond) = (1_000_u64, 1_001);
        assert_eq!(JsonMeasure::of(&json!([max, -1_000]), max).too_large, None);
        assert_eq!(JsonMeasure::of(&json!([1.5, beyond, i64::MIN]), max).too_large, Some(beyond.to_string()));
        assert_eq!(JsonMeasure::of(&json!({ "a": i64::MIN }), max).too_large, Some(i64::MIN.to_string()));
    }
}
