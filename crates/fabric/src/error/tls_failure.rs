//! Why a TLS session with the other side cannot be.

/// Why a TLS session cannot be, or is over.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The certificate of the other side is of no authority that is trusted here.
    #[error("its certificate is of no authority that is trusted here")]
    UnknownAuthority,
    /// The certificate has expired.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("its certificate is not valid yet")]
    NotValidYet,
    /// The certificate is for other hosts than the one that was connected to.
    #[error("its certificate is for another host")]
    OtherName,
    /// The certificate has none of the fingerprints that are trusted.
    #[error("its certificate has another fingerprint than those that are trusted")]
    OtherFingerprint,
    /// The certificate cannot be used otherwise.
    #[error("its certificate cannot be used: {reason}")]
    BadCertificate {
        /// Why not.
        reason: String,
    },
    /// The other side refuses the certificate of this one.
    #[error("it refuses this side's certificate: {reason}")]
    Refused {
        /// What it says.
        reason: String,
    },
    /// The other side speaks something else than TLS.
    #[error("it does not speak TLS")]
    NotTls,
    /// The other side speaks TLS, and this one does not.
    #[error("it speaks TLS: its address begins with tcps://")]
    TlsNeeded,
    /// More bytes than any handshake has.
    #[error("its handshake is longer than {limit} bytes")]
    LongHandshake {
        /// The limit.
        limit: usize,
    },
    /// The other side does not do what TLS demands.
    #[error("{reason}")]
    Broken {
        /// What is wrong.
        reason: String,
    },
}
