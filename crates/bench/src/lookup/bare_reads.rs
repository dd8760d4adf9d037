//! What the limit is measured with: client threads that READ for ever.

use crate::BenchError;
use crate::simulated::TABLE_AT;
use farslot::fabric::sim::SimEndpoint;
use farslot::fabric::{EndpointExt, window};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::iter;
use std::rc::Rc;

/// READs random words for ever, or until one fails.
pub(super) async fn bare_reads(
    endpoint: Rc<SimEndpoint>,
    bytes: usize,
    last: u64,
    width: usize,
    seed: u64,
) -> BenchError {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let failed = RefCell::new(None);
    let next = || {
        failed
            .borrow()
            .is_none()
            .then(|| random.random_range(0..=last / 8) * 8)
    };
    let reads = iter::from_fn(next).map(|offset| endpoint.read(TABLE_AT.plus(offset), bytes));
    window(width, reads, |_, answer| {
        if let Err(error) = answer {
            *failed.borrow_mut() = Some(error.into());
        }
    })
    .await;
    failed.take().expect("READs end by an error only")
}
