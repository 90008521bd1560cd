//! The cluster's own certificate authority, and TLS with its certificates alone.

use super::home::{AUTHORITY, AUTHORITY_KEY, About, CERTIFICATE, DESCRIPTION, Home, KEY};
use super::own_certificate::OwnCertificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm,
};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use zeroize::Zeroizing;

/// Validity of certificates, in days.
const AUTHORITY_DAYS: i64 = 3650;
const SERVER_DAYS: i64 = 825;
/// Time by which a certificate's validity begins before its creation, because clocks of servers differ.
const BEFORE: Duration = Duration::hours(1);

/// The authority of a cluster, with its key.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// Makes the folder of a cluster's first server, with a new authority.
///
/// # Errors
///
/// The folder belongs to a server already, or cannot be written, or the machine does not have the address; a sentence.
pub fn found(folder: &Path, about: &About, description: &str) -> Result<Home, String> {
    about.check_address()?;
    let (authority, own) = Authority::new(&about.cluster)?;
    let server = authority.certify(&about.server, about.address)?;
    Home::create(
        folder,
        about,
        &[
            (AUTHORITY, &own.certificate),
            (AUTHORITY_KEY, &own.key),
            (CERTIFICATE, &server.certificate),
            (KEY, &server.key),
            (DESCRIPTION, description),
        ],
    )
}

/// A key and the certificate for it, as PEM.
struct Certified {
    /// The key.
    key: Zeroizing<String>,
    /// The certificate.
    certificate: String,
}

/// Public key of a server, an uncompressed point of P-256.
struct PublicKey<'a>(&'a [u8]);

impl PublicKeyData for PublicKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    /// Makes the authority of a new cluster, and its files.
    fn new(cluster: &str) -> Result<(Authority, Certified), String> {
        let key = KeyPair::generate().map_err(text)?;
        let pem = Zeroizing::new(key.serialize_pem());
        let certificate = authority(cluster).self_signed(&key).map_err(text)?.pem();
        let certified = Certified {
            key: pem,
            certificate: certificate.clone(),
        };
        let issuer = Issuer::new(authority(cluster), key);
        Ok((
            Authority {
                issuer,
                certificate,
            },
            certified,
        ))
    }

    /// The authority whose key is in this folder. The error is a sentence.
    pub(super) fn open(home: &Home) -> Result<Authority, String> {
        let pem = home.read(AUTHORITY_KEY).map_err(|e| {
            format!("{e}: only the server on which `ashlar cluster init` ran can invite others")
        })?;
        let key = KeyPair::from_pem(&pem).map_err(text)?;
        Ok(Authority {
            issuer: Issuer::new(authority(&home.about.cluster), key),
            certificate: home.read(AUTHORITY)?.to_string(),
        })
    }

    /// Certificate of the authority, as PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes a key and a certificate for a server.
    fn certify(&self, server: &str, address: IpAddr) -> Result<Certified, String> {
        let key = KeyPair::generate().map_err(text)?;
        Ok(Certified {
            certificate: self.sign(server, address, key.public_key_raw())?,
            key: Zeroizing::new(key.serialize_pem()),
        })
    }

    /// Certificate for a server's public key, as PEM. It serves on both sides of a connection, as etcd's members need.
    pub(super) fn sign(
        &self,
        server: &str,
        address: IpAddr,
        public: &[u8],
    ) -> Result<String, String> {
        let mut params = CertificateParams::default();
        params.distinguished_name = names(server);
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        lasts(&mut params, SERVER_DAYS)?;
        let signed = params
            .signed_by(&PublicKey(public), &self.issuer)
            .map_err(text)?;
        Ok(signed.pem())
    }
}

fn authority(cluster: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = names(&format!("cluster {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // An error (no random numbers) would matter only for a new authority, whose key was just made from random numbers.
    // An issuer needs no times and no number.
    let _ = lasts(&mut params, AUTHORITY_DAYS);
    params
}

fn names(common: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, common);
    names
}

fn lasts(params: &mut CertificateParams, days: i64) -> Result<(), String> {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BEFORE;
    params.not_after = now + Duration::days(days);
    let mut number = [0; 16];
    super::random(&mut number)?;
    number[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&number));
    Ok(())
}

/// Makes a key and its public part, which the authority signs.
pub(super) fn new_key() -> Result<(Zeroizing<String>, Vec<u8>), String> {
    let key = KeyPair::generate().map_err(text)?;
    Ok((
        Zeroizing::new(key.serialize_pem()),
        key.public_key_raw().to_vec(),
    ))
}

fn text(error: impl std::fmt::Display) -> String {
    format!("cannot make a certificate: {error}")
}

/// Certificate from PEM.
pub(super) fn certificate(pem: &str) -> Result<CertificateDer<'static>, String> {
    let parsed = CertificateDer::from_pem_slice(pem.as_bytes());
    parsed.map_err(|e| format!("cannot read a certificate: {e:?}"))
}

/// Key from PEM.
pub(super) fn key(pem: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| format!("cannot read a key: {e:?}"))
}

/// Settings of a client that trusts servers of the cluster alone, and proves to be one.
///
/// # Errors
///
/// A file of the folder is missing or wrong; a sentence.
pub(crate) fn client(home: &Home) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let authority = certificate(&home.read(AUTHORITY)?)?;
    roots
        .add(authority)
        .map_err(|e| format!("cannot use {AUTHORITY}: {e}"))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = config.with_root_certificates(roots);
    Ok(config.with_client_cert_resolver(OwnCertificate::open(home)?))
}

/// Settings of a server that serves other servers of the cluster alone.
///
/// # Errors
///
/// A file of the folder is missing or wrong; a sentence.
pub(crate) fn mutual(home: &Home) -> Result<ServerConfig, String> {
    let mut roots = RootCertStore::empty();
    let unusable = |e: &dyn std::fmt::Display| format!("cannot use {AUTHORITY}: {e}");
    roots
        .add(certificate(&home.read(AUTHORITY)?)?)
        .map_err(|e| unusable(&e))?;
    let provider = Arc::new(ring::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let clients = clients.build().map_err(|e| unusable(&e))?;
    let config = ServerConfig::builder_with_provider(provider);
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = config.with_client_cert_verifier(clients);
    Ok(config.with_cert_resolver(OwnCertificate::open(home)?))
}

/// Settings of a server that shows its certificate and the authority's. Clients prove themselves by tokens.
pub(super) fn server(home: &Home) -> Result<ServerConfig, String> {
    let own = vec![
        certificate(&home.read(CERTIFICATE)?)?,
        certificate(&home.read(AUTHORITY)?)?,
    ];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = config.with_no_client_auth();
    config
        .with_single_cert(own, key(&home.read(KEY)?)?)
        .map_err(|e| format!("cannot use {CERTIFICATE} with {KEY}: {e}"))
}
