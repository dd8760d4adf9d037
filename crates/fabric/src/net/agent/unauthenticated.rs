//! The connections of a thread whose clients are not admitted, or have to leave: how many there may
//! be, in all and of one address, and until when.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

/// The connections of a thread whose clients are not admitted, the oldest first.
#[derive(Debug)]
pub struct UnauthenticatedClients {
    /// The most, in all and of one address.
    most: [usize; 2],
    oldest_first: VecDeque<UnauthenticatedClient>,
    of_address: HashMap<IpAddr, usize>,
}

#[derive(Clone, Copy, Debug)]
struct UnauthenticatedClient {
    token: u64,
    address: IpAddr,
    /// By when it must have been admitted, or be gone.
    until: Instant,
}

impl UnauthenticatedClients {
    /// None, and at most so many in all and of one address.
    #[must_use]
    pub fn new(most: [usize; 2]) -> Self {
        Self {
            most,
            oldest_first: VecDeque::new(),
            of_address: HashMap::new(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.oldest_first.is_empty()
    }

    /// Who has to go so that one from this address may come: the oldest, of that address where
    /// these are too many.
    #[must_use]
    pub fn to_go_for(&self, address: IpAddr) -> Option<u64> {
        let [most, most_of_one] = self.most;
        let of_one = self.of_address.get(&address).copied().unwrap_or(0);
        let mut all = self.oldest_first.iter();
        let goes = if of_one >= most_of_one {
            all.find(|unauthenticated| unauthenticated.address == address)
        } else if self.oldest_first.len() >= most {
            all.next()
        } else {
            None
        };
        goes.map(|unauthenticated| unauthenticated.token)
    }

    /// Adds one, which has the same time as all others, from now on.
    pub fn add(&mut self, token: u64, address: IpAddr, until: Instant) {
        *self.of_address.entry(address).or_default() += 1;
        self.oldest_first.push_back(UnauthenticatedClient {
            token,
            address,
            until,
        });
    }

    /// Removes one; false if it was none of these.
    pub fn remove(&mut self, token: u64) -> bool {
        let mut all = self.oldest_first.iter();
        let Some(place) = all.position(|unauthenticated| unauthenticated.token == token) else {
            return false;
        };
        if let Some(UnauthenticatedClient { address, .. }) = self.oldest_first.remove(place)
            && let Some(of_one) = self.of_address.get_mut(&address)
        {
            *of_one -= 1;
            if *of_one == 0 {
                self.of_address.remove(&address);
            }
        }
        true
    }

    /// The next whose time is up.
    #[must_use]
    pub fn late(&self, now: Instant) -> Option<u64> {
        let oldest = self.oldest_first.front()?;
        (now >= oldest.until).then_some(oldest.token)
    }

    /// The one that has been there for the longest.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.oldest_first.front().map(|oldest| oldest.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    #[test]
    fn the_oldest_goes_for_the_newest_and_no_address_takes_all_places() {
        let address = |last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last));
        let mut unauthenticated = UnauthenticatedClients::new([4, 2]);
        let now = Instant::now();
        let mut gone = Vec::new();
        for (token, last) in [(0, 1), (1, 2), (2, 2), (3, 2), (4, 3), (5, 4), (6, 5)] {
            if let Some(oldest) = unauthenticated.to_go_for(address(last)) {
                assert!(unauthenticated.remove(oldest));
                gone.push(oldest);
            }
            unauthenticated.add(token, address(last), now + Duration::from_secs(token));
        }
        // 1 goes for another of its address, the others for want of room.
        assert_eq!(gone, [1, 0, 2]);
        assert!(!unauthenticated.remove(1));
        assert_eq!(unauthenticated.late(now), None);
        assert_eq!(unauthenticated.late(now + Duration::from_secs(3)), Some(3));
        for token in [3, 4, 5, 6] {
            assert!(unauthenticated.remove(token));
        }
        assert!(unauthenticated.is_empty() && unauthenticated.of_address.is_empty());
    }
}
