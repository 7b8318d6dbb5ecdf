//! Judging the cases.

use super::cases::Case;
use super::expected::{Difference, Expectation};
use crate::checks::authenticity::Authenticity;
use crate::checks::explain::for_subject;
use crate::checks::{Gate, GateError, GateSettings};
use crate::cli::signing;
use crate::config::Settings;
use crate::delivery::{Gate as _, Judgement};
use crate::envelope::SourceNames;
use crate::nats::chain;

/// The gate of a configuration, with keys or without.
pub(super) struct Judge<'a> {
    settings: &'a Settings,
    /// The gate as the daemon has it; `None` when no key is read.
    gate: Option<Gate>,
}

/// What became of one case.
#[derive(Debug)]
pub(super) struct CaseResult {
    pub(super) name: String,
    pub(super) expected: Expectation,
    /// Whether the signature was taken for granted.
    pub(super) signature_assumed: bool,
    /// What the gate said, or why it could not be asked.
    pub(super) judged: Result<Judgement, String>,
    /// Metadata that is not as expected.
    pub(super) differences: Vec<Difference>,
}

impl CaseResult {
    /// Whether everything is as expected.
    pub(super) fn passed(&self) -> bool {
        let met = self.judged.as_ref().is_ok_and(|judgement| self.expected.is_met_by(&judgement.verdict));
        met && self.differences.is_empty()
    }
}

impl<'a> Judge<'a> {
    pub(super) fn open(settings: &'a Settings, without_keys: bool) -> Result<Self, GateError> {
        let gate = if without_keys { None } else { Some(Gate::open(settings.gate.clone())?) };
        Ok(Self { settings, gate })
    }

    pub(super) fn judge(&self, case: &Case) -> CaseResult {
        let signature_assumed = self.gate.is_none() && case.assume_signed;
        let mut message = case.message.clone();
        let signed = match &case.sign {
            Some(sign) if !signature_assumed => {
                signing::sign_message(&mut message, &self.settings.gate, sign)
            }
            Some(_) | None => Ok(()),
        };
        let consumer = &self.settings.consumer;
        let envelope = message.envelope(SourceNames::shared(&consumer.stream, &consumer.durable));
        let judged = signed.map_err(|error| format!("the case cannot be signed: {}", chain(&error)));
        let judged = judged.and_then(|()| match &self.gate {
            Some(gate) => Ok(gate.judge(&envelope)),
            None => self.without_keys(&envelope.subject, signature_assumed).map(|gate| gate.judge(&envelope)),
        });
        let differences = judged
            .as_ref()
            .map_or_else(|_| Vec::new(), |judgement| case.metadata.differences(&envelope, judgement));
        CaseResult {
            name: case.name.clone(),
            expected: case.expected,
            signature_assumed,
            judged,
            differences,
        }
    }

    /// A gate for one subject; it is not opened if that takes a key.
    fn without_keys(&self, subject: &str, signature_assumed: bool) -> Result<Gate, String> {
        let settings = for_subject(&self.settings.gate, subject);
        let settings = if signature_assumed {
            GateSettings { authenticity: Authenticity::NotRequired, ..settings }
        } else if needs_keys(&settings.authenticity) {
            return Err(
                "it needs a key; with --without-keys only assume_signed = true takes a signature for granted"
                    .into(),
            );
        } else {
            settings
        };
        Gate::open(settings).map_err(|error| chain(&error))
    }
}

/// Whether a rule asks for a signature.
fn needs_keys(authenticity: &Authenticity) -> bool {
    match authenticity {
        Authenticity::NotRequired => false,
        Authenticity::Required(settings) => settings.rules.iter().any(|rule| rule.signature.is_some()),
    }
}
