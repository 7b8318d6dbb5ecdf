//! A small JSON document as a tree of values: mission metadata, security labels and the like, which come from producers.
//!
//! Reading is strict, bounded and total (formats §1): whatever the bytes are, the answer is an object within the bounds or
//! an error that names the bound. Errors and `Debug` never show a key or a value.

use std::fmt;

use super::parser;

/// Integers of a document are within ±this (2^53 − 1), so every reader keeps them exactly.
pub const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// What a document may hold at the most. A document at a bound is within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the document as it came.
    pub bytes: usize,
    /// Nested objects and arrays; the document itself, an object, is depth 1. At most [`Bounds::DEEPEST`] counts.
    pub depth: usize,
    /// Fields of one object.
    pub fields: usize,
    /// Items of one array.
    pub items: usize,
}

impl Bounds {
    /// The bounds of mission metadata (formats §1).
    pub const MISSION_METADATA: Self = Self { bytes: 8192, depth: 8, fields: 128, items: 256 };
    /// No document is read that is nested deeper than this, whatever `depth` says: reading is recursive.
    pub const DEEPEST: usize = 64;
}

/// Why bytes are not a JSON object within the bounds. Positions are bytes from the start, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Above [`Bounds::bytes`].
    #[error("it has more than {limit} bytes")]
    TooLong {
        /// The bound.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// JSON, and not an object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// Not JSON (RFC 8259).
    #[error("it is not JSON at byte {at}")]
    Syntax {
        /// Where.
        at: usize,
    },
    /// Above [`Bounds::depth`].
    #[error("it is nested deeper than {limit}")]
    TooDeep {
        /// The bound.
        limit: usize,
    },
    /// Above [`Bounds::fields`].
    #[error("an object has more than {limit} fields")]
    TooManyFields {
        /// The bound.
        limit: usize,
    },
    /// Above [`Bounds::items`].
    #[error("an array has more than {limit} items")]
    TooManyItems {
        /// The bound.
        limit: usize,
    },
    /// An integer beyond ±[`MAX_INTEGER`].
    #[error("an integer is beyond ±(2^53-1)")]
    IntegerOutOfRange,
    /// `NaN`, `Infinity`, or a number that no float can hold.
    #[error("a number is not finite")]
    NotFinite,
    /// One key twice in one object, maybe in two spellings.
    #[error("an object has a key twice")]
    DuplicateKey,
    /// Half of a surrogate pair.
    #[error("a string holds half of a surrogate pair")]
    LoneSurrogate,
}

/// One JSON value.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number without fraction and exponent, within ±[`MAX_INTEGER`]; `-0` is 0.
    Integer(i64),
    /// A number with a fraction or an exponent; finite.
    Float(f64),
    /// A text.
    String(String),
    /// Values in order.
    Array(Vec<Self>),
    /// Fields.
    Object(Object),
}

/// One JSON object, its fields sorted by the code points of their keys; no key is there twice.
#[derive(Clone, Default, PartialEq)]
pub struct Object {
    fields: Vec<(String, Value)>,
}

impl Object {
    /// Reads one JSON object, white space around it allowed.
    ///
    /// # Errors
    /// See [`JsonError`].
    pub fn parse(bytes: &[u8], bounds: &Bounds) -> Result<Self, JsonError> {
        parser::parse(bytes, bounds)
    }

    /// Sorts the fields.
    pub(super) fn from_fields(mut fields: Vec<(String, Value)>) -> Result<Self, JsonError> {
        // UTF-8 sorts as its code points do.
        fields.sort_unstable_by(|(one, _), (another, _)| one.cmp(another));
        let twice = fields.windows(2).any(|pair| matches!(pair, [(one, _), (another, _)] if one == another));
        if twice { Err(JsonError::DuplicateKey) } else { Ok(Self { fields }) }
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let found = self.fields.binary_search_by(|(own, _)| own.as_str().cmp(key)).ok()?;
        self.fields.get(found).map(|(_, value)| value)
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(key, _)| key.as_str())
    }

    /// The fields in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many fields there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl Value {
    /// The text, if it is one.
    #[must_use]
    pub const fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            Self::Null
            | Self::Boolean(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Array(_)
            | Self::Object(_) => None,
        }
    }

    /// What kind of value it is, in words for an error text.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::String(_) => "a text",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Shows the kind, never the value.
impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind())
    }
}

/// Shows the number of fields, never what they say.
impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Object").field("fields", &self.fields.len()).finish_non_exhaustive()
    }
}
