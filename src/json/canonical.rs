//! The one spelling of a JSON value that signatures cover (formats §2): keys sorted by code point at every level, `,` and
//! `:` without spaces, non-ASCII characters literal, `\b \f \n \r \t \" \\` and `\u00xx` as the only escapes, and floats in
//! the shortest form that reads back as the same number, as Python's `repr` spells it.

use super::value::{Object, Value};
use super::write::write_hex;

impl Object {
    /// The object in its canonical spelling.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = Vec::new();
        self.write_canonical(&mut out);
        // Only texts and ASCII were written; were it not so, nothing would verify against the empty text.
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the canonical spelling.
    pub fn write_canonical(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut separator: &[u8] = b"";
        for (key, value) in self.iter() {
            out.extend_from_slice(separator);
            write_canonical_string(key, out);
            out.push(b':');
            value.write_canonical(out);
            separator = b",";
        }
        out.push(b'}');
    }
}

impl Value {
    /// Appends the canonical spelling.
    pub fn write_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Boolean(true) => out.extend_from_slice(b"true"),
            Self::Boolean(false) => out.extend_from_slice(b"false"),
            Self::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Self::Float(number) => write_canonical_float(*number, out),
            Self::String(text) => write_canonical_string(text, out),
            Self::Array(items) => {
                out.push(b'[');
                let mut separator: &[u8] = b"";
                for item in items {
                    out.extend_from_slice(separator);
                    item.write_canonical(out);
                    separator = b",";
                }
                out.push(b']');
            }
            Self::Object(object) => object.write_canonical(out),
        }
    }
}

/// Appends a string in its canonical spelling, quotes included.
pub fn write_canonical_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(plain) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F)) {
        let (safe, special) = rest.split_at(plain);
        out.extend_from_slice(safe);
        let Some((special, tail)) = special.split_first() else { break };
        rest = tail;
        match special {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *special]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                write_hex(&[*control], out);
            }
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a finite float: without an exponent from 1e-4 to below 1e16, where a whole number keeps `.0`; beyond, with a
/// sign and at least two digits of exponent.
pub fn write_canonical_float(number: f64, out: &mut Vec<u8>) {
    let shortest = shortest(number);
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&*shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |positive| ("-", positive));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    out.extend_from_slice(sign.as_bytes());
    let text = match exponent {
        -4..=-1 => {
            let zeros = usize::try_from(-1 - exponent).unwrap_or(0);
            format!("0.{}{digits}", "0".repeat(zeros))
        }
        0..=15 => {
            let whole = usize::try_from(exponent + 1).unwrap_or(1);
            match digits.split_at_checked(whole) {
                Some((whole, fraction)) if !fraction.is_empty() => format!("{whole}.{fraction}"),
                _ => format!("{digits:0<whole$}.0"),
            }
        }
        _ => {
            let direction = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{direction}{:02}", exponent.unsigned_abs())
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// The shortest digits that read back as the number, as `d.ddde-7`; of two that are equally near, the even one.
fn shortest(number: f64) -> String {
    let shortest = format!("{number:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    // Rust's own choice between two equally near spellings is the upper one. Rounding to as many digits prefers the even.
    let rounded = format!("{number:.*e}", digits.saturating_sub(1));
    if rounded.parse() == Ok(number) { rounded } else { shortest }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn float(number: f64) -> String {
        let mut out = Vec::new();
        write_canonical_float(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn string(text: &str) -> String {
        let mut out = Vec::new();
        write_canonical_string(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_spelled_as_python_does() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.000_123, "0.000123"),
            (0.000_01, "1e-05"),
            (1e-7, "1e-07"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (123_456.789, "123456.789"),
            (1e15, "1000000000000000.0"),
            (1.5e15, "1500000000000000.0"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            // Halfway between two spellings of sixteen digits.
            (7_902_629_587_531_185.0 / 4.0, "1975657396882796.2"),
            (544_503_779_174_889.0 / 16.0, "34031486198430.562"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (1e22, "1e+22"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(float(number), expected);
        }
    }

    #[test]
    fn strings_have_the_escapes_of_formats_2_and_no_other() {
        assert_eq!(string("a\u{8}\u{c}\n\r\t\"\\b"), "\"a\\b\\f\\n\\r\\t\\\"\\\\b\"");
        assert_eq!(string("\0\u{1f}\u{b}"), "\"\\u0000\\u001f\\u000b\"");
        assert_eq!(
            string("/\u{7f}\u{85}\u{2028}\u{e9}\u{1f600}"),
            "\"/\u{7f}\u{85}\u{2028}\u{e9}\u{1f600}\""
        );
        assert_eq!(string(""), "\"\"");
    }

    proptest! {
        #[test]
        fn floats_read_back(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            if number.is_finite() {
                prop_assert_eq!(float(number).parse::<f64>().unwrap().to_bits(), bits);
            }
        }

        #[test]
        fn strings_read_back(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&string(&text)).unwrap(), text);
        }
    }
}
