//! The look at the TLS files before the first attempt. The client reads them at each attempt, and takes a file without a
//! certificate for an empty list, so that every server would seem to be a stranger.

use std::fs;
use std::path::Path;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::nats::error::NatsError;
use crate::nats::settings::TlsSettings;

/// Reads what `[nats.tls]` names.
///
/// # Errors
/// A file cannot be read, or does not hold what its key says.
pub(super) fn check(tls: &TlsSettings) -> Result<(), NatsError> {
    if let Some(file) = &tls.ca_file {
        certificates("nats.tls.ca_file", file)?;
    }
    if let Some((certificate, key)) = &tls.client_certificate {
        let own = certificates("nats.tls.certificate_file", certificate)?;
        let bytes = read("nats.tls.key_file", key)?;
        let key_is = |fault: &str| wrong("nats.tls.key_file", key, fault);
        let secret = PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|_| key_is("holds no private key (PEM, without a password)"))?;
        CertifiedKey::from_der(own, secret, &ring::default_provider())
            .map_err(|_| key_is("is not the key of the certificate in nats.tls.certificate_file"))?;
    }
    Ok(())
}

fn certificates(name: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, NatsError> {
    let bytes = read(name, file)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| wrong(name, file, "holds no certificate (PEM)"))
}

fn read(name: &str, file: &Path) -> Result<Vec<u8>, NatsError> {
    fs::read(file).map_err(|error| wrong(name, file, &format!("cannot be read: {error}")))
}

fn wrong(name: &str, file: &Path, fault: &str) -> NatsError {
    NatsError::Settings(format!("{name}: the file {} {fault}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_what_it_should_be_is_named_and_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.pem");
        let ca = TlsSettings { ca_file: Some(file.clone()), ..TlsSettings::default() };
        let key =
            TlsSettings { client_certificate: Some((file.clone(), file.clone())), ..TlsSettings::default() };
        for content in [None, Some("CANARY"), Some("-----BEGIN CERTIFICATE-----\nCANARY")] {
            if let Some(content) = content {
                fs::write(&file, content).unwrap();
            }
            for (tls, name) in [(&ca, "nats.tls.ca_file"), (&key, "nats.tls.certificate_file")] {
                let error = check(tls).unwrap_err().to_string();
                assert!(
                    error.contains(name) && error.contains("a.pem") && !error.contains("CANARY"),
                    "{error}"
                );
            }
        }
        assert!(check(&TlsSettings::default()).is_ok());
    }
}
