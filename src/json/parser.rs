//! Reads small JSON documents into values; see [`super::value`].

use super::value::{Bounds, JsonError, MAX_INTEGER, Object, Value};

pub(super) fn parse(bytes: &[u8], bounds: &Bounds) -> Result<Object, JsonError> {
    if bytes.len() > bounds.bytes {
        return Err(JsonError::TooLong { limit: bounds.bytes });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::NotText)?;
    let mut parser = Parser { text, at: 0, depth: 0, bounds };
    parser.skip_space();
    if parser.peek() != Some(b'{') {
        // What stands there is read to its end: only JSON can be called "JSON, and not an object".
        let not_an_object = parser.value().and_then(|_| parser.end()).map(|()| JsonError::NotAnObject);
        return Err(not_an_object.unwrap_or_else(|error| error));
    }
    let object = parser.object()?;
    parser.end()?;
    Ok(object)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    bounds: &'a Bounds,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{') => self.object().map(Value::Object),
            Some(b'[') => self.array().map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Boolean(true)),
            Some(b'f') => self.literal("false", Value::Boolean(false)),
            Some(b'n') => self.literal("null", Value::Null),
            // Some writers spell them like this, so the error says what is wrong with them.
            Some(b'N') => self.literal("NaN", ()).and(Err(JsonError::NotFinite)),
            Some(b'I') => self.literal("Infinity", ()).and(Err(JsonError::NotFinite)),
            Some(_) | None => self.syntax(),
        }
    }

    fn object(&mut self) -> Result<Object, JsonError> {
        self.open()?;
        let mut fields = Vec::new();
        if !self.taken(b'}') {
            loop {
                if fields.len() == self.bounds.fields {
                    return Err(JsonError::TooManyFields { limit: self.bounds.fields });
                }
                if self.peek() != Some(b'"') {
                    return self.syntax();
                }
                let key = self.string()?;
                self.skip_space();
                self.expect(b':')?;
                let value = self.value()?;
                fields.push((key, value));
                if self.ends_with(b'}')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Object::from_fields(fields)
    }

    fn array(&mut self) -> Result<Vec<Value>, JsonError> {
        self.open()?;
        let mut items = Vec::new();
        if !self.taken(b']') {
            loop {
                if items.len() == self.bounds.items {
                    return Err(JsonError::TooManyItems { limit: self.bounds.items });
                }
                items.push(self.value()?);
                if self.ends_with(b']')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(items)
    }

    /// Goes into an object or an array, behind its first sign and the white space there.
    fn open(&mut self) -> Result<(), JsonError> {
        let limit = self.bounds.depth.min(Bounds::DEEPEST);
        if self.depth == limit {
            return Err(JsonError::TooDeep { limit });
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Goes behind a value: true at the end of what holds it, false when another value follows.
    fn ends_with(&mut self, end: u8) -> Result<bool, JsonError> {
        self.skip_space();
        if self.taken(end) {
            return Ok(true);
        }
        self.expect(b',')?;
        Ok(false)
    }

    fn end(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { self.syntax() }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F));
            let Some(plain) = plain else {
                self.at = self.text.len();
                return self.syntax();
            };
            text.push_str(self.text.get(self.at..self.at + plain).unwrap_or_default());
            self.at += plain;
            if self.taken(b'"') {
                return Ok(text);
            }
            self.expect_byte(b'\\')?;
            let escaped = self.escape()?;
            text.push(escaped);
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let character = match self.peek() {
            Some(sign @ (b'"' | b'\\' | b'/')) => char::from(sign),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            Some(_) | None => return self.syntax(),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let high = self.unit()?;
        let code = match high {
            0xD800..=0xDBFF => {
                if !self.taken(b'\\') || self.peek() != Some(b'u') {
                    return Err(JsonError::LoneSurrogate);
                }
                let low = self.unit()?;
                if !(0xDC00..=0xDFFF).contains(&low) {
                    return Err(JsonError::LoneSurrogate);
                }
                0x1_0000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
            }
            other => other,
        };
        char::from_u32(code).ok_or(JsonError::LoneSurrogate)
    }

    /// The four digits behind a `u`.
    fn unit(&mut self) -> Result<u32, JsonError> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return self.syntax();
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.taken(b'-') && self.peek() == Some(b'I') {
            return self.literal("Infinity", ()).and(Err(JsonError::NotFinite));
        }
        if !self.taken(b'0') {
            self.digits()?;
        }
        let mut is_integer = true;
        if self.taken(b'.') {
            is_integer = false;
            self.digits()?;
        }
        if self.taken(b'e') || self.taken(b'E') {
            is_integer = false;
            let _signed = self.taken(b'+') || self.taken(b'-');
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        if is_integer {
            let integer = text.parse().ok().filter(|number| (-MAX_INTEGER..=MAX_INTEGER).contains(number));
            return integer.map(Value::Integer).ok_or(JsonError::IntegerOutOfRange);
        }
        let float = text.parse().ok().filter(|number: &f64| number.is_finite());
        float.map(Value::Float).ok_or(JsonError::NotFinite)
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { self.syntax() } else { Ok(()) }
    }

    fn literal<T>(&mut self, word: &str, value: T) -> Result<T, JsonError> {
        for byte in word.bytes() {
            self.expect_byte(byte)?;
        }
        Ok(value)
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.peek() != Some(byte) {
            return self.syntax();
        }
        self.at += 1;
        Ok(())
    }

    /// The sign, and the white space behind it.
    fn expect(&mut self, sign: u8) -> Result<(), JsonError> {
        self.expect_byte(sign)?;
        self.skip_space();
        Ok(())
    }

    fn taken(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    const fn syntax<T>(&self) -> Result<T, JsonError> {
        Err(JsonError::Syntax { at: self.at })
    }
}
