//! What metrics are of.

use crate::family::Family;

/// What metrics are of.
pub trait Source: Send + 'static {
    /// All of them, as they are now.
    fn families(&self) -> Vec<Family>;

    /// Whether it does its work.
    ///
    /// # Errors
    /// Why not.
    fn ready(&self) -> Result<(), String>;
}

/// All of several, which are ready when each of them is.
impl Source for Vec<Box<dyn Source>> {
    fn families(&self) -> Vec<Family> {
        self.iter().flat_map(|source| source.families()).collect()
    }

    fn ready(&self) -> Result<(), String> {
        self.iter().try_for_each(|source| source.ready())
    }
}
