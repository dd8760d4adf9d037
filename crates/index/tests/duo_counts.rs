//! What insertions into an index of fingerprints cost, by load factor, and when the first one fails.

mod common;

use common::duo_vault::{Cost, Vault};
use farslot_index::duo::placement::Shape;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn shape(slots: u64, d: u32) -> Shape {
    Shape {
        buckets: slots.div_ceil(2 * u64::from(d)),
        bucket_slots: d,
        fingerprint_bits: 16,
        longest_path: 3,
        stash: 32,
        backups: true,
    }
}

#[test]
fn explore() {
    let slots: u64 = std::env::var("SLOTS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(300_000);
    for d in [4, 8, 12, 16] {
        let mut vault = Vault::new(shape(slots, d));
        let total = vault.index.shape().slots();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut sum, mut n, mut most) = (Cost::default(), 0u64, 0);
        let (mut adj, mut unr, mut nop) = (0, 0, 0);
        let mut next = 5;
        let (mut all, mut alln) = (0u64, 0u64);
        loop {
            let Some(c) = vault.insert(rng.random()) else {
                break;
            };
            n += 1;
            alln += 1;
            all += c.round_trips;
            sum.round_trips += c.round_trips;
            sum.accessed += c.accessed;
            sum.moved += c.moved;
            most = most.max(c.round_trips);
            adj += u64::from(c.adjusted);
            unr += u64::from(c.unresolved);
            nop += u64::from(c.no_path);
            let load = vault.index.live() as f64 / total as f64;
            if load * 100.0 >= next as f64 {
                if next >= 50 {
                    println!(
                        "d {d} to {next}%: rtt {:.4} items {:.3} moved {:.4} most {most}, mean so far {:.4}; adjusted {adj} unresolved {unr} nopath {nop} stash {}",
                        sum.round_trips as f64 / n as f64,
                        sum.accessed as f64 / n as f64,
                        sum.moved as f64 / n as f64,
                        all as f64 / alln as f64,
                        vault.index.stashed()
                    );
                }
                next += if next < 90 { 5 } else { 1 };
                sum = Cost::default();
                n = 0;
            }
        }
        println!(
            "d {d} full at {:.5}: moved {:.4} items {:.3} nopath {nop} unresolved {unr} adj {adj} bytes/slot {:.3}",
            vault.index.live() as f64 / total as f64,
            sum.moved as f64 / n as f64,
            sum.accessed as f64 / n as f64,
            vault.index.bytes() as f64 / total as f64
        );
    }
}
