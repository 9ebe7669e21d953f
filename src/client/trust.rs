//! Trust in the certificates that a deployment gives under `tls.ca`.
//!
//! `openssl req -x509` makes a self-signed certificate that is marked as a CA, and servers use it as their own. By the
//! rules of RFC 5280 such a certificate signs others and is never a server's. Here, a server's certificate that is byte
//! for byte one of `tls.ca` is trusted as itself. Its names, its validity and the handshake's signature are checked as
//! always. If it has no subjectAltName, its common name is its name, as for curl: RFC 9525 forbids that because an
//! authority may sign a common name without a check, but here no authority signed anything.

use std::net::IpAddr;
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
    /// Each with its common name.
    given: Vec<(CertificateDer<'static>, Option<String>)>,
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
        let names = roots.roots.iter().map(|root| common_name(&root.subject)).collect::<Vec<_>>();
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self { usual, given: given.into_iter().zip(names).collect() })
    }

    /// A certificate whose only name is its common one. The usual verifier found everything else right: it looks at the
    /// names last.
    fn is_named(&self, server: &CertificateDer<'_>, name: &ServerName<'_>, error: &rustls::Error) -> bool {
        use CertificateError::NotValidForNameContext;
        let nameless = matches!(
            error,
            rustls::Error::InvalidCertificate(NotValidForNameContext { presented, .. }) if presented.is_empty()
        );
        let own = self.given.iter().find(|(given, _)| given == server).and_then(|(_, own)| own.as_deref());
        nameless
            && own.is_some_and(|own| match name {
                ServerName::DnsName(name) => own.eq_ignore_ascii_case(name.as_ref()),
                ServerName::IpAddress(address) => own.parse() == Ok(IpAddr::from(*address)),
                _ => false,
            })
    }
}

/// The last common name in a subject (RFC 5280, section 4.1.2.4): a list of sets of pairs of type and value.
fn common_name(subject: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];
    const COMMON_NAME: (u8, &[u8]) = (0x06, &[0x55, 0x04, 0x03]);
    let (mut rest, mut found) = (subject, None);
    while let Some((SET, mut set, after)) = element(rest) {
        while let Some((SEQUENCE, pair, others)) = element(set) {
            let (kind, oid, value) = element(pair)?;
            let (string, text, _) = element(value)?;
            if (kind, oid) == COMMON_NAME && STRINGS.contains(&string) {
                found = std::str::from_utf8(text).ok().map(str::to_owned);
            }
            set = others;
        }
        rest = after;
    }
    found
}

/// The first element of some DER: its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest.split_first_chunk().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest))?,
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
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
        let verified = match self.usual.verify_server_cert(server, intermediates, name, ocsp, now) {
            Err(error) if is_ca_as_server(&error) && self.given.iter().any(|(given, _)| given == server) => {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)
                    .map(|()| ServerCertVerified::assertion())
            }
            other => other,
        };
        match verified {
            Err(error) if self.is_named(server, name, &error) => Ok(ServerCertVerified::assertion()),
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
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};

    /// A self-signed certificate for `h.example`, marked as a CA, valid in these years.
    fn made(years: (i32, i32)) -> CertificateDer<'static> {
        let mut made = CertificateParams::new(vec!["h.example".to_owned()]).unwrap();
        made.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        made.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        made.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        made.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    /// As of `openssl req -x509 -subj /O=o/CN=…`: without a subjectAltName.
    fn nameless(common: &str, is_ca: bool, years: (i32, i32)) -> CertificateDer<'static> {
        let mut made = CertificateParams::new(Vec::new()).unwrap();
        if is_ca {
            made.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        made.distinguished_name.push(DnType::OrganizationName, "o");
        made.distinguished_name.push(DnType::CommonName, common);
        made.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        made.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        made.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn the_common_name_counts_for_a_given_certificate_without_another_name() {
        let (good, old) = ((2020, 2060), (2000, 2001));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let long = "a".repeat(50) + "." + &"b".repeat(60) + "." + &"c".repeat(60);
        for (what, common, is_ca, years, asked, expected) in [
            ("a CA", "h.example", true, good, "h.example", ""),
            ("no CA", "h.example", false, good, "H.example", ""),
            ("an address", "127.0.0.1", true, good, "127.0.0.1", ""),
            ("a long name", &*long, true, good, &*long, ""),
            ("another name", "h.example", true, good, "other.example", "NotValidForName"),
            ("no pattern", "*.example", true, good, "h.example", "NotValidForName"),
            ("expired", "h.example", true, old, "h.example", "Expired"),
        ] {
            let own = nameless(common, is_ca, years);
            let twin = nameless(common, is_ca, years);
            let verifier = GivenCertificates::new(vec![own.clone()], Arc::clone(&provider)).unwrap();
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_780_000_000));
            let name = ServerName::try_from(asked).unwrap();
            match verifier.verify_server_cert(&own, &[], &name, &[], now) {
                Ok(_) => assert_eq!(expected, "", "{what}"),
                Err(error) => {
                    assert!(
                        !expected.is_empty() && format!("{error:?}").contains(expected),
                        "{what}: {error:?}"
                    );
                }
            }
            assert!(verifier.verify_server_cert(&twin, &[], &name, &[], now).is_err(), "{what}");
        }
        for cut in [&b""[..], b"\x31", b"\x31\x85", b"\x31\x04\x30\x02\x06\x03", b"\x31\x82\x01"] {
            assert_eq!(common_name(cut), None);
        }
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
