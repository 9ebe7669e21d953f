//! Certificates that TLS trusts, from the system and from PEM files, and keys. If a file holds something else, the
//! error says what, with the openssl command that converts it.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Files of certificates and keys are not larger, in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// The certificates that the system trusts; empty if there are none.
#[must_use]
pub fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// The certificates of a PEM file, at least one.
///
/// # Errors
/// Why the file cannot be read, or what it holds instead.
pub fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let read = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|error| damaged(&error))?;
    if certificates.is_empty() {
        let what = match CertificateFileContent::of(&bytes) {
            CertificateFileContent::Der => {
                "a certificate in DER: `openssl x509 -inform der -in FILE -out FILE.pem` converts it".into()
            }
            CertificateFileContent::Pkcs12 => {
                "a PKCS #12 archive: `openssl pkcs12 -in FILE -nokeys -out FILE.pem` takes the certificates"
                    .into()
            }
            other => other.shown(),
        };
        return Err(format!("holds no PEM certificate (a line BEGIN CERTIFICATE), but {what}"));
    }
    Ok(certificates)
}

/// The first private key of a PEM file.
///
/// # Errors
/// Why the file cannot be read, or what it holds instead.
pub fn key_of_file(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    if is_encrypted(&bytes) {
        return Err("the key is encrypted, and bench asks for no password: write a copy without one with \
                    `openssl pkey -in FILE -out FILE.plain`, which only you may read"
            .to_owned());
    }
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => {
            let what = match CertificateFileContent::of(&bytes) {
                CertificateFileContent::Der => "DER: `openssl pkey -inform der -in FILE -out FILE.pem` converts a key".into(),
                CertificateFileContent::Pkcs12 => "a PKCS #12 archive: `openssl pkcs12 -in FILE -nocerts -nodes -out FILE.pem` takes the key".into(),
                other => other.shown(),
            };
            Err(format!("holds no PEM private key (a line BEGIN PRIVATE KEY), but {what}"))
        }
        Err(error) => Err(damaged(&error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.is_dir() {
        return Err("it is a directory: name a file".to_owned());
    }
    if metadata.len() > BYTES_MAX {
        return Err(format!("it is larger than {} MiB: that is no file of certificates", BYTES_MAX >> 20));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

fn damaged(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it is cut off: a BEGIN line has no END line".to_owned(),
        error => format!("it is damaged: {error}"),
    }
}

/// True for a key that needs a password: PKCS #8 says so by its name, older forms in a header.
fn is_encrypted(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"].iter().any(|mark| text.contains(mark))
}

/// What a file holds.
enum CertificateFileContent {
    Nothing,
    /// PEM with these names.
    Pem(Vec<String>),
    Der,
    Pkcs12,
    JavaKeystore,
    OpenSshKey,
    Text,
    Bytes,
}

impl CertificateFileContent {
    fn of(bytes: &[u8]) -> Self {
        const SEQUENCE: u8 = 0x30;
        /// A version 3 at the beginning of a sequence whose length has two bytes (RFC 7292, section 4).
        const PKCS12: &[u8] = &[0x02, 0x01, 0x03, 0x30];
        let text = std::str::from_utf8(bytes).ok();
        let names: Vec<String> = text.into_iter().flat_map(str::lines).filter_map(pem_name).collect();
        match bytes {
            [] => Self::Nothing,
            _ if names.iter().any(|name| name == "OPENSSH PRIVATE KEY") => Self::OpenSshKey,
            _ if !names.is_empty() => Self::Pem(names),
            [SEQUENCE, 0x82, _, _, rest @ ..] if rest.starts_with(PKCS12) => Self::Pkcs12,
            [SEQUENCE, 0x30..=0x84, ..] if text.is_none() => Self::Der,
            [0xfe, 0xed, 0xfe, 0xed, ..] => Self::JavaKeystore,
            _ if text.is_some_and(|text| text.trim().is_empty()) => Self::Nothing,
            _ if text.is_some() => Self::Text,
            _ => Self::Bytes,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Nothing => "nothing: it is empty".to_owned(),
            Self::Pem(names) => names.join(", "),
            Self::Der => "DER".to_owned(),
            Self::Pkcs12 => "a PKCS #12 archive".to_owned(),
            Self::JavaKeystore => {
                "a Java keystore: `keytool -importkeystore` makes PKCS #12 of it, and `openssl pkcs12` PEM"
                    .to_owned()
            }
            Self::OpenSshKey => {
                "a key of OpenSSH: `ssh-keygen -p -m PEM -f FILE` rewrites it as PEM".to_owned()
            }
            Self::Text => "text that is no PEM".to_owned(),
            Self::Bytes => "bytes that are neither PEM nor DER".to_owned(),
        }
    }
}

/// `RSA PRIVATE KEY` of `-----BEGIN RSA PRIVATE KEY-----`.
fn pem_name(line: &str) -> Option<String> {
    let name = line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
    Some(name.chars().filter(|c| !c.is_control()).take(60).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";

    #[test]
    fn what_a_file_holds_instead_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let openssh =
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----\n";
        let locked = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMAA=\n-----END RSA PRIVATE KEY-----\n";
        let pkcs8 = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let cut = "-----BEGIN PRIVATE KEY-----\nMAA=\n";
        for (bytes, certificate, key) in [
            (&b""[..], "nothing: it is empty", "nothing: it is empty"),
            (b" \n", "nothing", "nothing"),
            (PEM.as_bytes(), "but CERTIFICATE REQUEST", "but CERTIFICATE REQUEST"),
            (openssh.as_bytes(), "a key of OpenSSH", "a key of OpenSSH"),
            (locked.as_bytes(), "it is damaged", "the key is encrypted"),
            (pkcs8.as_bytes(), "but ENCRYPTED PRIVATE KEY", "the key is encrypted"),
            (cut.as_bytes(), "it is cut off", "it is cut off"),
            (b"\x30\x82\x01\x0a\x02\x82\x01\x01\xff", "a certificate in DER", "but DER"),
            (b"\x30\x82\x09\x5f\x02\x01\x03\x30\x82\xff", "a PKCS #12 archive", "a PKCS #12 archive"),
            (b"\xfe\xed\xfe\xed\0\0\0\x02", "a Java keystore", "a Java keystore"),
            (b"hello", "text that is no PEM", "text that is no PEM"),
            (b"\xff\xfe\0", "neither PEM nor DER", "neither PEM nor DER"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let shown = String::from_utf8_lossy(bytes);
            let error = of_file(&path).unwrap_err();
            assert!(error.contains(certificate), "{shown}: {error}");
            let error = key_of_file(&path).unwrap_err();
            assert!(error.contains(key), "{shown}: {error}");
        }
        assert!(of_file(folder.path()).unwrap_err().contains("it is a directory"));
        assert!(key_of_file(&folder.path().join("none")).unwrap_err().contains("No such file"));
    }
}
