//! The profile `nats-sinks.security-label.v1`: what may stand in it, and its one normal form.

use super::labels;
use super::mission::document;
use super::settings::{AllowedLabels, MetadataError, SecurityLabelSettings};
use crate::envelope::Metadata;
use crate::json::{Object, Value, write_canonical_string};

/// The name of the profile.
const PROFILE: &str = "nats-sinks.security-label.v1";
/// Characters of a text, and of each text of a list.
const MAX_CHARACTERS: usize = 512;
/// Texts of a list.
const MAX_TEXTS: usize = 128;

/// The fields of a profile that are texts, beside its name.
const TEXTS: [&str; 6] =
    ["priority", "classification", "owner", "originator", "policy_id", "retention_category"];
/// The fields that are lists of texts.
const LISTS: [&str; 3] = ["labels", "releasability", "handling_caveats"];

/// A profile as a header, a rule or the default gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// The outer `None` = the metadata of the message says it.
    priority: Option<Option<String>>,
    /// As `priority`.
    classification: Option<Option<String>>,
    /// As `priority`.
    labels: Option<Vec<String>>,
    releasability: Vec<String>,
    handling_caveats: Vec<String>,
    owner: Option<String>,
    originator: Option<String>,
    policy_id: Option<String>,
    retention_category: Option<String>,
    /// In canonical spelling.
    extensions: Option<String>,
}

impl Profile {
    /// Reads a profile; a blank value is explicitly none.
    ///
    /// # Errors
    /// It is no profile, or a value of it is not allowed.
    pub(super) fn read(
        value: &[u8],
        settings: &SecurityLabelSettings,
    ) -> Result<Option<Self>, MetadataError> {
        Self::within(value, settings.max_bytes, &settings.allowed)
    }

    /// Reads what [`Profile::text`] wrote, which may be longer than what was read before.
    ///
    /// # Errors
    /// As [`Profile::read`].
    pub(super) fn read_own(value: &[u8], allowed: &AllowedLabels) -> Result<Option<Self>, MetadataError> {
        Self::within(value, usize::MAX, allowed)
    }

    fn within(
        value: &[u8],
        max_bytes: usize,
        allowed: &AllowedLabels,
    ) -> Result<Option<Self>, MetadataError> {
        let document = document(value, max_bytes).map_err(MetadataError::SecurityLabels)?;
        let Some(document) = document else { return Ok(None) };
        let profile = Self::of(&document)?;
        profile.check_allowed(profile.priority.as_ref(), profile.classification.as_ref(), allowed)?;
        Ok(Some(profile))
    }

    fn of(document: &Object) -> Result<Self, MetadataError> {
        let known =
            |key| TEXTS.contains(&key) || LISTS.contains(&key) || matches!(key, "profile" | "extensions");
        if !document.keys().all(known) {
            return Err(fault("a field", "is not known to the profile"));
        }
        let text = |field| document.get(field).map(|value| text_of(field, value)).transpose();
        let list = |field| document.get(field).map(|value| list_of(field, value)).transpose();
        if text("profile")?.flatten().is_some_and(|name| name != PROFILE) {
            return Err(fault("profile", "is not nats-sinks.security-label.v1"));
        }
        let extensions = match document.get("extensions") {
            None | Some(Value::Null) => None,
            Some(Value::Object(extensions)) => Some(extensions.canonical()),
            Some(
                Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) | Value::Array(_),
            ) => return Err(fault("extensions", "is not an object")),
        };
        Ok(Self {
            priority: text("priority")?,
            classification: text("classification")?,
            labels: list("labels")?,
            releasability: list("releasability")?.unwrap_or_default(),
            handling_caveats: list("handling_caveats")?.unwrap_or_default(),
            owner: text("owner")?.flatten(),
            originator: text("originator")?.flatten(),
            policy_id: text("policy_id")?.flatten(),
            retention_category: text("retention_category")?.flatten(),
            extensions,
        })
    }

    fn check_allowed(
        &self,
        priority: Option<&Option<String>>,
        classification: Option<&Option<String>>,
        allowed: &AllowedLabels,
    ) -> Result<(), MetadataError> {
        let checks = [
            ("priority", priority.map_or(&[][..], Option::as_slice), &allowed.priorities),
            ("classification", classification.map_or(&[][..], Option::as_slice), &allowed.classifications),
            ("releasability", &self.releasability, &allowed.releasability),
            ("handling_caveats", &self.handling_caveats, &allowed.handling_caveats),
            ("retention_category", self.retention_category.as_slice(), &allowed.retention_categories),
        ];
        for (field, texts, allowed) in checks {
            let fits = |text| allowed.is_empty() || allowed.contains(text);
            if !texts.iter().all(fits) {
                return Err(MetadataError::NotAllowed { field });
            }
        }
        Ok(())
    }

    /// The normal form of the profile of one message: what the profile lacks comes from the message's metadata.
    ///
    /// # Errors
    /// What comes from the metadata has no place in a profile, or is not allowed.
    pub(super) fn complete(
        &self,
        metadata: &Metadata,
        settings: &SecurityLabelSettings,
    ) -> Result<String, MetadataError> {
        for (field, own, filled) in [
            ("priority", &self.priority, &metadata.priority),
            ("classification", &self.classification, &metadata.classification),
        ] {
            if let (None, Some(text)) = (own, filled) {
                check_text(field, text)?;
            }
        }
        if self.labels.is_none() {
            check_list("labels", &metadata.labels)?;
        }
        let priority = self.priority.as_ref().unwrap_or(&metadata.priority);
        let classification = self.classification.as_ref().unwrap_or(&metadata.classification);
        let labels = self.labels.as_ref().unwrap_or(&metadata.labels);
        self.check_allowed(Some(priority), Some(classification), &settings.allowed)?;
        Ok(self.written(Some(priority), Some(classification), Some(labels)))
    }

    /// What is set, as a profile that reads back as this one.
    pub(super) fn text(&self) -> String {
        self.written(self.priority.as_ref(), self.classification.as_ref(), self.labels.as_ref())
    }

    fn written(
        &self,
        priority: Option<&Option<String>>,
        classification: Option<&Option<String>>,
        labels: Option<&Vec<String>>,
    ) -> String {
        let mut out = Writer(Vec::new());
        out.text("classification", classification);
        if let Some(extensions) = &self.extensions {
            out.key("extensions");
            out.0.extend_from_slice(extensions.as_bytes());
        }
        out.list("handling_caveats", Some(&self.handling_caveats));
        out.list("labels", labels);
        out.text("originator", Some(&self.originator));
        out.text("owner", Some(&self.owner));
        out.text("policy_id", Some(&self.policy_id));
        out.text("priority", priority);
        out.key("profile");
        write_canonical_string(PROFILE, &mut out.0);
        out.list("releasability", Some(&self.releasability));
        out.text("retention_category", Some(&self.retention_category));
        out.0.push(b'}');
        // Only texts and ASCII were written.
        String::from_utf8(out.0).unwrap_or_default()
    }
}

const fn fault(field: &'static str, fault: &'static str) -> MetadataError {
    MetadataError::Profile { field, fault }
}

/// Trimmed; null and blank are explicitly nothing.
fn text_of(field: &'static str, value: &Value) -> Result<Option<String>, MetadataError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => {
            let text = labels::text(text);
            text.as_deref().map_or(Ok(()), |text| check_text(field, text))?;
            Ok(text)
        }
        Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::Array(_) | Value::Object(_) => {
            Err(fault(field, "is not a text"))
        }
    }
}

/// An array of texts, or one text split on `;`.
fn list_of(field: &'static str, value: &Value) -> Result<Vec<String>, MetadataError> {
    let texts = match value {
        Value::Null => Vec::new(),
        Value::String(text) => labels::unique(text.split(';')),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            labels::unique(texts.ok_or_else(|| fault(field, "has an entry that is not a text"))?.into_iter())
        }
        Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::Object(_) => {
            return Err(fault(field, "is neither a text nor an array of texts"));
        }
    };
    check_list(field, &texts)?;
    Ok(texts)
}

fn check_text(field: &'static str, text: &str) -> Result<(), MetadataError> {
    if text.contains(['\0', '\r', '\n']) {
        return Err(fault(field, "holds NUL or a line break"));
    }
    // No text has more characters than bytes.
    if text.len() > MAX_CHARACTERS && text.chars().count() > MAX_CHARACTERS {
        return Err(fault(field, "has more than 512 characters"));
    }
    Ok(())
}

fn check_list(field: &'static str, texts: &[String]) -> Result<(), MetadataError> {
    if texts.len() > MAX_TEXTS {
        return Err(fault(field, "has more than 128 entries"));
    }
    texts.iter().try_for_each(|text| check_text(field, text))
}

/// Writes one flat object; the order of the calls is the order of the keys.
struct Writer(Vec<u8>);

impl Writer {
    fn key(&mut self, key: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        write_canonical_string(key, &mut self.0);
        self.0.push(b':');
    }

    /// `None` = not written.
    fn text(&mut self, key: &str, text: Option<&Option<String>>) {
        let Some(text) = text else { return };
        self.key(key);
        match text {
            Some(text) => write_canonical_string(text, &mut self.0),
            None => self.0.extend_from_slice(b"null"),
        }
    }

    /// `None` = not written.
    fn list(&mut self, key: &str, texts: Option<&Vec<String>>) {
        let Some(texts) = texts else { return };
        self.key(key);
        let mut separator = b'[';
        for text in texts {
            self.0.push(separator);
            write_canonical_string(text, &mut self.0);
            separator = b',';
        }
        self.0.extend_from_slice(if texts.is_empty() { b"[]" } else { b"]" });
    }
}
