//! A table's size and fill: the two numbers on which every distribution depends.

use crate::ModelError;

/// The most slots the model accepts: 2^40.
pub const MAX_SLOTS: u64 = 1 << 40;

/// A linear-probing table of M slots of which N are occupied (paper 000, section 3.3: M and N).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLoad {
    slots: u64,
    occupied: u64,
}

impl TableLoad {
    /// A table of `slots` slots holding `occupied` keys.
    ///
    /// # Errors
    /// [`ModelError::NoSlots`], [`ModelError::TooManySlots`] above [`MAX_SLOTS`], or
    /// [`ModelError::TooManyKeys`] if `occupied` exceeds `slots`.
    pub fn new(slots: u64, occupied: u64) -> Result<Self, ModelError> {
        if slots == 0 {
            return Err(ModelError::NoSlots);
        }
        if slots > MAX_SLOTS {
            return Err(ModelError::TooManySlots { slots });
        }
        if occupied > slots {
            return Err(ModelError::TooManyKeys { slots, occupied });
        }
        Ok(Self { slots, occupied })
    }

    /// A table of `slots` slots filled to `load` (0 to 1), rounded to a whole number of keys.
    ///
    /// # Errors
    /// As [`TableLoad::new`], and [`ModelError::LoadFactor`] if `load` is not between 0 and 1.
    pub fn from_load(slots: u64, load: f64) -> Result<Self, ModelError> {
        if !(0.0..=1.0).contains(&load) {
            return Err(ModelError::LoadFactor(load));
        }
        let occupied = (load * slots as f64).round() as u64;
        Self::new(slots, occupied.min(slots))
    }

    /// M: the number of slots.
    pub fn slots(self) -> u64 {
        self.slots
    }

    /// N: the number of occupied slots.
    pub fn occupied(self) -> u64 {
        self.occupied
    }

    /// The number of empty slots, M - N.
    pub fn empty(self) -> u64 {
        self.slots - self.occupied
    }

    /// The load factor, N / M.
    pub fn load(self) -> f64 {
        self.occupied as f64 / self.slots as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_shapes_are_typed_errors() {
        assert_eq!(TableLoad::new(0, 0), Err(ModelError::NoSlots));
        assert_eq!(
            TableLoad::new(MAX_SLOTS + 1, 0),
            Err(ModelError::TooManySlots {
                slots: MAX_SLOTS + 1
            })
        );
        assert_eq!(
            TableLoad::new(3, 4),
            Err(ModelError::TooManyKeys {
                slots: 3,
                occupied: 4
            })
        );
        assert!(TableLoad::from_load(8, f64::NAN).is_err());
        assert!(TableLoad::from_load(8, 1.5).is_err());
    }

    #[test]
    fn a_load_becomes_a_whole_number_of_keys() {
        let table = TableLoad::from_load(10, 0.46).unwrap();
        assert_eq!((table.occupied(), table.empty()), (5, 5));
        assert_eq!(table.load(), 0.5);
        assert_eq!(TableLoad::from_load(MAX_SLOTS, 1.0).unwrap().empty(), 0);
    }
}
