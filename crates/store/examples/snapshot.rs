//! A table that is built whole and sealed: denser, faster to fill, and never changed again.

use farslot::{FieldSize, Result, Store, TableOptions};

fn main() -> Result<()> {
    let store = Store::embedded()?;
    let prices: Vec<(String, String)> = (0..20_000)
        .map(|number| {
            (
                format!("article {number}"),
                format!("{} cents", number % 997),
            )
        })
        .collect();
    let records: Vec<(&[u8], &[u8])> = prices
        .iter()
        .map(|(article, price)| (article.as_bytes(), price.as_bytes()))
        .collect();

    let options = TableOptions::new(records.len() as u64)
        .keys(FieldSize::UpTo(16))
        .values(FieldSize::UpTo(16))
        .sealed();
    store.build("prices", &options, &records)?;

    let table = store.table("prices")?;
    assert!(table.is_sealed());
    assert_eq!(
        table.get(b"article 1000")?.as_deref(),
        Some(&b"3 cents"[..])
    );
    let refused = table.put(b"article 1000", b"0 cents");
    println!("a put is refused: {}", refused.unwrap_err());
    let occupancy = table.occupancy()?;
    println!(
        "{} records, {:.0} % full",
        occupancy.entries,
        100.0 * occupancy.load_factor()
    );
    Ok(())
}
