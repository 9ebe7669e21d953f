//! Trust in the certificates that a deployment gives under `tls.ca`.
//!
//! `openssl req -x509` makes a self-signed certificate that is marked as a CA, and servers use it as their own. By the
//! rules of RFC 5280 such a certificate signs others and is never a server's. Here, a server's certificate that is
//! byte for byte one of `tls.ca` is trusted as itself. Its names, its validity and the handshake's signature are
//! checked as always.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The usual verifier, which also trusts the given certificates themselves.
#[derive(Debug)]
pub(super) struct GivenCertificates {
    usual: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl GivenCertificates {
    /// Trusts `given`, as issuers and as themselves.
    ///
    /// # Errors
    /// A certificate that rustls cannot read.
    pub(super) fn new(
        given: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            roots.add(certificate.clone())?;
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self { usual, given })
    }
}

/// True if the only fault is that the certificate is marked as a CA. webpki looks at the validity first, so that an
/// expired certificate has another error (the tests check this).
fn is_ca_as_server(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    other.to_string() == "CaUsedAsEndEntity"
}

impl ServerCertVerifier for GivenCertificates {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.usual.verify_server_cert(server, intermediates, name, ocsp, now) {
            Err(error) if is_ca_as_server(&error) && self.given.iter().any(|given| given == server) => {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    /// A self-signed certificate for `h.example`, marked as a CA, valid in these years.
    fn made(years: (i32, i32)) -> CertificateDer<'static> {
        let mut made = CertificateParams::new(vec!["h.example".to_owned()]).unwrap();
        made.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        made.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        made.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        made.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_given_certificate_is_trusted_as_itself_if_its_name_and_its_time_fit() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (own, twin, old, early) =
            (made((2020, 2060)), made((2020, 2060)), made((2000, 2001)), made((2050, 2060)));
        let given = vec![own.clone(), old.clone(), early.clone()];
        let verifier = GivenCertificates::new(given, provider).unwrap();
        // 2026.
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_780_000_000));
        for (what, certificate, name, expected) in [
            ("itself", &own, "h.example", Ok(())),
            ("another name", &own, "other.example", Err("NotValidForName")),
            ("expired", &old, "h.example", Err("Expired")),
            ("not yet valid", &early, "h.example", Err("NotValidYet")),
            ("not given, with the same names", &twin, "h.example", Err("")),
        ] {
            let name = ServerName::try_from(name).unwrap();
            let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
            match (verified, expected) {
                (Ok(_), Ok(())) => {}
                (Err(error), Err(part)) => assert!(format!("{error:?}").contains(part), "{what}: {error:?}"),
                (verified, _) => panic!("{what}: {verified:?}"),
            }
        }
    }
}
