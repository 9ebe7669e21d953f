//! TLS for every connection of the harness: rustls with ring, verified unless switched off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use base::certificates;

use super::trust::GivenCertificates;

/// TLS options.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Verify the servers' certificates.
    pub verify: bool,
    /// PEM certificates to trust instead of the system's: as issuers, and as the servers' own.
    pub ca: Option<PathBuf>,
    /// The client's PEM certificate chain and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or does not contain PEM of the right kind.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// rustls rejects the options.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
    /// There are no trusted certificates.
    #[error("the system has no trusted certificates; install ca-certificates or name a file under `tls.ca`")]
    NoRoots,
}

/// True for a name that a server can be asked for in the handshake.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    matches!(ServerName::try_from(name), Ok(ServerName::DnsName(_)))
}

/// Builds rustls' configuration. The system's certificates are loaded only if `wanted`, because that takes time and
/// plain HTTP does not need them.
///
/// # Errors
/// Unreadable files, no trusted certificates, or a key that does not match its certificate.
pub fn config(options: &TlsOptions, wanted: bool) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match &options.ca {
        _ if !options.verify => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(PermissiveVerifier(provider)))
        }
        Some(path) => {
            let trusted = GivenCertificates::new(of_file(path)?, provider)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(trusted))
        }
        None => builder.with_root_certificates(roots(wanted)?),
    };
    let mut config = match &options.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let der = certificates::key_of_file(key).map_err(|reason| file_error(key, &reason))?;
            let chain = of_file(cert)?;
            builder
                .with_client_auth_cert(chain, der)
                .map_err(|error| file_error(key, &of_key(&error, cert)))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(wanted: bool) -> Result<RootCertStore, TlsError> {
    if !wanted {
        return Ok(RootCertStore::empty());
    }
    let store = certificates::of_system();
    if store.is_empty() {
        return Err(TlsError::NoRoots);
    }
    Ok(store)
}

fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates::of_file(path).map_err(|reason| file_error(path, &reason))
}

/// What is wrong with a key that was read.
fn of_key(error: &rustls::Error, certificate: &Path) -> String {
    let certificate = certificate.display();
    match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "this key is not that of the first certificate of {certificate}: `openssl pkey -in KEY -pubout` and \
             `openssl x509 -in CERT -noout -pubkey` must print the same"
        ),
        rustls::Error::InvalidCertificate(_) => {
            format!("the first certificate of {certificate} cannot be read: {error}")
        }
        error => format!(
            "a key of this kind cannot be used ({error}): RSA of 2048 to 8192 bits, ECDSA with P-256 or P-384, or Ed25519"
        ),
    }
}

fn file_error(path: &Path, reason: &str) -> TlsError {
    TlsError::File { path: path.display().to_string(), reason: reason.to_owned() }
}

/// Accepts any certificate; handshake signatures are still checked.
#[derive(Debug)]
struct PermissiveVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for PermissiveVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
