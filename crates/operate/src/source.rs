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
