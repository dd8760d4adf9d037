//! A transfer between two accounts: both change or neither does, whoever looks and whoever dies.
//! With an address, over the nodes there: `bank_transfer tcp://A:7000,B:7000,C:7000`.

use farslot::{FieldSize, Result, Store, TableOptions, Transaction};

fn cents(t: &mut Transaction, name: &str) -> Result<u64> {
    let value = t.get("accounts", name.as_bytes())?;
    Ok(value.map_or(0, |bytes| {
        u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
    }))
}

fn main() -> Result<()> {
    let store = Store::open(&std::env::args().nth(1).unwrap_or("embedded".into()))?;
    let accounts = TableOptions::new(1_000).values(FieldSize::Fixed(8));
    store.create("accounts", &accounts.chained())?;
    store
        .table("accounts")?
        .put(b"Ann", &100_u64.to_le_bytes())?;
    store.transaction(|t| {
        let (from, to) = (cents(t, "Ann")?, cents(t, "Bob")?);
        t.put("accounts", b"Ann", &(from - 15).to_le_bytes())?;
        t.put("accounts", b"Bob", &(to + 15).to_le_bytes())
    })?;
    let both = store.transaction(|t| Ok((cents(t, "Ann")?, cents(t, "Bob")?)))?;
    println!("Ann has {} cents, Bob has {}", both.0, both.1);
    Ok(())
}
