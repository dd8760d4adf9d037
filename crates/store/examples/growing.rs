//! Keys that come and go, in a table that grows while it is used: RACE's extendible hashing.

use farslot::layout::RaceShape;
use farslot::{FieldSize, Result, Store, TableOptions};

fn main() -> Result<()> {
    let store = Store::embedded()?;
    let options = TableOptions::new(1_000)
        .values(FieldSize::UpTo(64))
        .race(RaceShape::default())
        .grow_to(50_000);
    store.create("sessions", &options)?;
    let sessions = store.table("sessions")?;

    // Ten times as many sessions as the table began with, each ended after a while.
    for number in 0..60_000_u32 {
        sessions.put(format!("session {number}").as_bytes(), b"cart: empty")?;
        if let Some(ended) = number.checked_sub(10_000) {
            assert!(sessions.remove(format!("session {ended}").as_bytes())?);
        }
    }
    sessions.flush()?;
    let occupancy = sessions.occupancy()?;
    println!(
        "{} sessions in {} slots, which began as {}",
        occupancy.entries, occupancy.slots, 1_000
    );
    Ok(())
}
