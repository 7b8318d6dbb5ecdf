//! The arguments that say by which rule and key a message is signed or verified.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::SignWith;
use crate::checks::GateSettings;
use crate::checks::authenticity::{
    Algorithm, Authenticity, AuthenticityHeaders, AuthenticityRule, AuthenticitySettings, KeySettings,
    SignatureRule, SignedField,
};
use crate::cli::ConfigFile;
use crate::config::Settings;
use crate::secret::SecretSource;
use crate::subject::SubjectPattern;

/// Where a key is read from; never the command line itself.
#[derive(Debug, Default, Args)]
#[group(multiple = false)]
pub(in crate::cli) struct KeyArguments {
    /// The file with the key, in base64
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The environment variable with the key, in base64
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// The systemd credential with the key, in base64
    #[arg(long, value_name = "NAME")]
    key_credential: Option<String>,
}

/// A rule: of a configuration, or by its parts.
#[derive(Debug, Args)]
pub(in crate::cli) struct RuleArguments {
    /// Take the rule for the subject, header names and metadata from this configuration
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The algorithm
    #[arg(
        long,
        value_enum,
        value_name = "ALGORITHM",
        conflicts_with = "config",
        required_unless_present = "config"
    )]
    algorithm: Option<AlgorithmArgument>,
    /// What is signed beside the payload
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "FIELD,…",
        default_value = "subject,message_id",
        conflicts_with = "config"
    )]
    signed_fields: Vec<FieldArgument>,
}

/// [`Algorithm`] as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum AlgorithmArgument {
    /// A public-key signature
    Ed25519,
    /// A shared key
    #[value(name = "hmac-sha256")]
    HmacSha256,
}

/// [`SignedField`] as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum FieldArgument {
    Classification,
    Labels,
    MessageId,
    MissionMetadata,
    Priority,
    SecurityLabels,
    Subject,
}

/// Where a rule comes from, and what goes with it.
pub(in crate::cli) struct Rules {
    pub(in crate::cli) gate: GateSettings,
    /// The whole configuration, where the rule is its.
    pub(in crate::cli) settings: Option<Settings>,
}

impl KeyArguments {
    /// Where the key is.
    pub(in crate::cli) fn source(&self) -> Option<SecretSource> {
        let file = self.key_file.clone().map(SecretSource::File);
        let environment = || self.key_env.clone().map(SecretSource::Environment);
        let credential = || self.key_credential.clone().map(SecretSource::Credential);
        file.or_else(environment).or_else(credential)
    }
}

impl RuleArguments {
    /// The rule. Without a configuration it is for every subject, with this key.
    pub(in crate::cli) fn rules(&self, key: Option<&SignWith>) -> Result<Rules, ExitCode> {
        if let Some(config) = &self.config {
            let settings = ConfigFile { config: config.clone() }.load()?.settings;
            return Ok(Rules { gate: settings.gate.clone(), settings: Some(settings) });
        }
        let keys = key.map(|key| KeySettings {
            key_id: key.key_id.clone(),
            source: key.source.clone(),
            not_before: None,
            not_after: None,
        });
        let signature = SignatureRule {
            algorithm: self.algorithm.map_or(Algorithm::Ed25519, Algorithm::from),
            keys: keys.into_iter().collect(),
            signed_fields: self.signed_fields.iter().copied().map(SignedField::from).collect(),
        };
        let rules = AuthenticityRule { subject: SubjectPattern::everything(), signature: Some(signature) };
        let authenticity = Authenticity::Required(AuthenticitySettings {
            headers: AuthenticityHeaders::default(),
            rules: vec![rules],
            allow_unmatched: false,
        });
        Ok(Rules { gate: GateSettings { authenticity, ..GateSettings::default() }, settings: None })
    }
}

impl From<AlgorithmArgument> for Algorithm {
    fn from(argument: AlgorithmArgument) -> Self {
        match argument {
            AlgorithmArgument::Ed25519 => Self::Ed25519,
            AlgorithmArgument::HmacSha256 => Self::HmacSha256,
        }
    }
}

impl From<FieldArgument> for SignedField {
    fn from(argument: FieldArgument) -> Self {
        match argument {
            FieldArgument::Classification => Self::Classification,
            FieldArgument::Labels => Self::Labels,
            FieldArgument::MessageId => Self::MessageId,
            FieldArgument::MissionMetadata => Self::MissionMetadata,
            FieldArgument::Priority => Self::Priority,
            FieldArgument::SecurityLabels => Self::SecurityLabels,
            FieldArgument::Subject => Self::Subject,
        }
    }
}
