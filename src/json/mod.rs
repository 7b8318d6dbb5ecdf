//! JSON as this program reads and writes it: payloads, which are checked strictly and copied as they came; strings and
//! numbers of records.

mod reader;
mod write;

pub use reader::{MAX_DEPTH, StrictJson, StrictReader};
pub use write::{write_hex, write_number, write_string};
