//! JSON as this program reads and writes it: payloads, which are checked strictly and copied as they came; small documents
//! of producers, which are read into values and spelled canonically; strings and numbers of records.

mod canonical;
mod parser;
mod reader;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub use canonical::{write_canonical_float, write_canonical_string};
pub use reader::{MAX_DEPTH, StrictJson, StrictReader};
pub use value::{Bounds, JsonError, MAX_INTEGER, Object, Value};
pub use write::{write_hex, write_number, write_on_one_line, write_string};
