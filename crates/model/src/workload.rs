//! What clients ask for: how often the key is there, and when a lookup may stop.

use crate::ModelError;

/// When a lookup that has found its key ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HitPolicy {
    /// It returns all matching records, so it reads on to the first empty slot (paper 000, section
    /// 4.2).
    AllMatches,
    /// Keys are unique, so it stops at the match.
    StopAtMatch,
}

/// The lookups that a read size is chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    hit_ratio: f64,
    hit_policy: HitPolicy,
}

impl Workload {
    /// Lookups of which the share `hit_ratio` (0 to 1) finds its key.
    ///
    /// # Errors
    /// [`ModelError::HitRatio`] if `hit_ratio` is not between 0 and 1.
    pub fn new(hit_ratio: f64, hit_policy: HitPolicy) -> Result<Self, ModelError> {
        if !(0.0..=1.0).contains(&hit_ratio) {
            return Err(ModelError::HitRatio(hit_ratio));
        }
        Ok(Self {
            hit_ratio,
            hit_policy,
        })
    }

    /// Lookups that never find their key: the model of paper 000, section 3.3.
    pub const fn misses() -> Self {
        Self {
            hit_ratio: 0.0,
            hit_policy: HitPolicy::AllMatches,
        }
    }

    /// Lookups that always find their key.
    pub const fn hits(hit_policy: HitPolicy) -> Self {
        Self {
            hit_ratio: 1.0,
            hit_policy,
        }
    }

    /// The share of lookups that find their key, 0 to 1.
    pub const fn hit_ratio(self) -> f64 {
        self.hit_ratio
    }

    /// When those end.
    pub const fn hit_policy(self) -> HitPolicy {
        self.hit_policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_ratio_is_a_probability() {
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Workload::new(bad, HitPolicy::StopAtMatch).is_err());
        }
        let half = Workload::new(0.5, HitPolicy::StopAtMatch).unwrap();
        assert_eq!(half.hit_ratio(), 0.5);
        assert_eq!(half.hit_policy(), HitPolicy::StopAtMatch);
    }
}
