//! Keys and values of types: counters of a web site's pages, by day, one key at a time, many at
//! once, and all of them.
//!
//! ```sh
//! cargo run --release -p farslot --example typed -- tcp://127.0.0.1:7000
//! ```

use bytemuck::{Pod, Zeroable};
use farslot::{Store, TableOptions, Typed};

/// No bytes between the fields, which would have no value: bytemuck checks that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
struct Page {
    number: u32,
    day: u32,
}

#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
struct Visits {
    people: u64,
    seconds: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let store = Store::open(address.as_deref().unwrap_or("embedded"))?;
    store.create("visits", &TableOptions::new(10_000).types::<Page, Visits>())?;
    let visits: Typed<_, Page, Visits> = store.table("visits")?.typed()?;

    let records: Vec<_> = (0..1_000)
        .map(|number| {
            let (people, seconds) = (u64::from(number % 7), f64::from(number) / 2.0);
            (Page { number, day: 1 }, Visits { people, seconds })
        })
        .collect();
    visits.put_many(&records, |_, is_new| assert!(is_new))?;

    // One step for whoever else counts, and again if somebody was faster.
    let page = Page { number: 5, day: 1 };
    let count = loop {
        let there = visits.get(&page)?;
        let before = there.unwrap_or(Visits {
            people: 0,
            seconds: 0.0,
        });
        let after = Visits {
            people: before.people + 1,
            ..before
        };
        if visits.compare_and_set(&page, there.as_ref(), &after)? {
            break after.people;
        }
    };
    assert_eq!(count, 6);

    let mut people = 0;
    for entry in &visits {
        let (_page, visits) = entry?;
        people += visits.people;
    }
    println!("{people} people have visited {} pages", records.len());
    store.drop_table("visits")?;
    Ok(())
}
