//! Certificates made to measure.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// One that signs certificates.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in files.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Authority {
    /// A new one; two of the same name do not know each other.
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Writes its own certificate.
    pub(super) fn write(&self, file: &Path) -> PathBuf {
        fs::write(file, self.issuer.pem()).unwrap();
        file.to_owned()
    }

    /// A server's certificate for these names and addresses, as `name.pem` and `name-key.pem`.
    pub(super) fn server(&self, folder: &Path, name: &str, hosts: &[&str]) -> Pair {
        self.sign(folder, name, params(hosts), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// The same, long over.
    pub(super) fn expired_server(&self, folder: &Path, name: &str, hosts: &[&str]) -> Pair {
        let mut params = params(hosts);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(folder, name, params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's certificate for this e-mail address.
    pub(super) fn client(&self, folder: &Path, name: &str, address: &str) -> Pair {
        self.sign(folder, name, params(&[address]), ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        folder: &Path,
        name: &str,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Pair {
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}-key.pem")),
        };
        fs::write(&pair.certificate, certificate.pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    CertificateParams::new(names).unwrap()
}

impl Pair {
    /// The server's block for it; `more` stands in the block as well.
    pub(super) fn block(&self, more: &str) -> String {
        format!(
            "tls {{ cert_file: \"{}\", key_file: \"{}\"\n timeout: 5\n {more} }}",
            self.certificate.display(),
            self.key.display()
        )
    }

    /// The base64 of the key, a line of it: what must never be shown.
    pub(super) fn secret(&self) -> String {
        fs::read_to_string(&self.key).unwrap().lines().nth(1).unwrap().to_owned()
    }
}
