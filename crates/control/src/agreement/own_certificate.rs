//! Certificate that a server shows, read from its files at each handshake: a renewed one counts at once.

use super::authority;
use super::home::{CERTIFICATE, Home, KEY};
use std::fmt;
use std::sync::Arc;
use sync::Lock;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::warn;

/// A server's certificate and key, for both sides of a connection.
pub(super) struct OwnCertificate {
    home: Home,
    latest: Lock<Latest>,
}

/// The latest certificate and key that could be read.
struct Latest {
    certified: Arc<CertifiedKey>,
    /// True if the log has told that the files cannot be read now.
    told: bool,
}

impl OwnCertificate {
    /// The certificate and key in a server's folder. The error is a sentence.
    pub(super) fn open(home: &Home) -> Result<Arc<OwnCertificate>, String> {
        Ok(Arc::new(OwnCertificate {
            home: home.clone(),
            latest: Lock::new(Latest {
                certified: read(home)?,
                told: false,
            }),
        }))
    }

    /// The certificate and key as the files have them now, or the latest that could be read: while the two files are
    /// replaced, they do not fit together.
    fn current(&self) -> Arc<CertifiedKey> {
        let mut latest = self.latest.lock();
        match read(&self.home) {
            Ok(certified) => {
                *latest = Latest {
                    certified,
                    told: false,
                };
            }
            Err(why) if !latest.told => {
                latest.told = true;
                warn!("the former certificate stays in use: {why}");
            }
            Err(_) => {}
        }
        Arc::clone(&latest.certified)
    }
}

/// The error is a sentence.
fn read(home: &Home) -> Result<Arc<CertifiedKey>, String> {
    let chain = vec![authority::certificate(&home.read(CERTIFICATE)?)?];
    let key = authority::key(&home.read(KEY)?)?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
    let certified = certified.map_err(|e| format!("cannot use {CERTIFICATE} with {KEY}: {e}"))?;
    Ok(Arc::new(certified))
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnCertificate").field(&self.home).finish()
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::testing::Folder;

    #[test]
    fn renewed_certificate_counts_as_soon_as_its_key_is_there_too() {
        let [old, new] = ["own-certificate", "own-certificate-new"].map(Folder::new);
        let own = OwnCertificate::open(&old.home).unwrap();
        let shown = |own: &OwnCertificate| own.current().cert[0].clone();
        let of = |folder: &Folder| {
            let pem = folder.home.read(CERTIFICATE).unwrap();
            authority::certificate(&pem).unwrap()
        };
        let first = of(&old);
        assert_eq!(shown(&own), first);
        old.home
            .write(CERTIFICATE, &new.home.read(CERTIFICATE).unwrap())
            .unwrap();
        assert_eq!(shown(&own), first);
        old.home.write(KEY, &new.home.read(KEY).unwrap()).unwrap();
        assert_eq!(shown(&own), of(&new));
        std::fs::remove_file(old.home.path(KEY)).unwrap();
        assert_eq!(shown(&own), of(&new));
    }
}
