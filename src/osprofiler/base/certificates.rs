//! Certificates that TLS trusts: the system's, and those of PEM files.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

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
/// Why the file cannot be read, or that it holds none.
pub fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("holds no PEM certificate".to_owned());
    }
    Ok(certificates)
}
