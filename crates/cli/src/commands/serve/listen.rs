//! Where something is served beside the memory.

/// Where something is served beside the memory, and whether under TLS.
#[derive(Clone, Debug)]
pub struct Listen {
    /// HOST:PORT.
    pub authority: String,
    pub tls: bool,
}

impl Listen {
    /// HOST:PORT as it is, or behind one of two schemes, the second of which is under TLS.
    ///
    /// # Errors
    /// That the scheme is another, in words.
    pub fn parse(text: &str, [plain, secured]: [&str; 2]) -> Result<Self, String> {
        let (scheme, authority) = text.split_once("://").unwrap_or((plain, text));
        if ![plain, secured].contains(&scheme) {
            return Err(format!(
                "the scheme {scheme:?} is unknown here: HOST:PORT, or {secured}://HOST:PORT under TLS"
            ));
        }
        Ok(Self {
            authority: authority.into(),
            tls: scheme == secured,
        })
    }
}
