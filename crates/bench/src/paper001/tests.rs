use super::cost::Filled;
use super::ours::Ours;
use super::race::Race;
use super::split::{Order, Search, Split, SplitShape};
use farslot::index::duo::placement::Shape;

fn slots() -> u64 {
    let asked = std::env::var("FARSLOT_SLOTS").ok();
    asked.map_or(100_000, |slots| slots.parse().expect("a number of slots"))
}

/// The paper's, with 8 slots a bucket and the published code's limit of two moves, for L = 3.
fn split(order: Order) -> SplitShape {
    SplitShape {
        buckets: slots() / 16,
        bucket_slots: 8,
        backup_slots: 2,
        fingerprint_bits: 16,
        stash: 32,
        collisions_aside: false,
        order,
        search: Search::Breadth(2),
    }
}

fn fill(shape: SplitShape) -> Filled {
    Filled::of(&mut Split::new(shape), 2.0, 0.01, 3)
}

/// Published counts at 3 million slots.
#[test]
fn the_papers_orders_fill_up_as_published() {
    for (order, published) in [(Order::BackupFirst, 0.983), (Order::PrimaryFirst, 0.945)] {
        let filled = fill(split(order));
        for load in [0.5, 0.7, 0.9] {
            let cost = filled.at(load).cost;
            println!(
                "{order:?} at {load}: accesses {:.2} items {:.2} moved {:.2} rtt {:.2}",
                cost.mean(|c| c.accesses),
                cost.mean(|c| c.items),
                cost.mean(|c| c.moved),
                cost.mean(|c| c.round_trips)
            );
        }
        let last = filled.bands.last().unwrap();
        println!(
            "{order:?}: {} adjusted {} collided {} last moved {:.3} all moved {:.3}",
            filled.load,
            filled.bands.iter().map(|b| b.cost.adjusted).sum::<u64>(),
            filled.bands.iter().map(|b| b.cost.collided).sum::<u64>(),
            last.cost.mean(|c| c.moved),
            filled.until(1.0).mean(|c| c.moved)
        );
        assert!((filled.load / published - 1.0).abs() < 0.02, "{order:?}");
    }
}

#[test]
fn longer_paths_fill_the_table_as_published() {
    for (moves, published) in [(0, 0.785), (1, 0.935), (2, 0.983), (3, 0.994)] {
        let filled = fill(SplitShape {
            search: Search::Breadth(moves),
            ..split(Order::BackupFirst)
        });
        println!("L = {}: {}", moves + 1, filled.load);
        assert!((filled.load / published - 1.0).abs() < 0.02);
    }
}

#[test]
fn walks_move_more_and_fill_less() {
    let filled = fill(SplitShape {
        search: Search::Depth(50),
        backup_slots: 0,
        collisions_aside: true,
        ..split(Order::BackupFirst)
    });
    let last = filled.bands[filled.bands.len() - 2];
    println!(
        "walk: {} moved {:.2}",
        filled.load,
        last.cost.mean(|c| c.moved)
    );
}

#[test]
fn race_fills_up_as_published() {
    for (d, published) in [(4, 0.817), (8, 0.920), (12, 0.947), (16, 0.961)] {
        let filled = Filled::of(&mut Race::new(slots(), d, 8), 2.0, 0.01, 3);
        println!("RACE d = {d}: {}", filled.load);
        assert!((filled.load / published - 1.0).abs() < 0.02, "d = {d}");
    }
}

#[test]
fn ours_moves_little_also_when_it_is_full() {
    let shape = Shape {
        buckets: slots() / 16,
        bucket_slots: 8,
        fingerprint_bits: 16,
        longest_path: 3,
        stash: 32,
        backups: true,
    };
    let filled = Filled::of(&mut Ours::new(shape), 2.0, 0.01, 3);
    for band in &filled.bands[60..] {
        println!(
            "ours {:.2}: moved {:.3} accesses {:.3} rtt {:.3}",
            band.load,
            band.cost.mean(|c| c.moved),
            band.cost.mean(|c| c.accesses),
            band.cost.mean(|c| c.round_trips)
        );
    }
    println!("ours: {}", filled.load);
}
