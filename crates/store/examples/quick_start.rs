//! A table in this program's own memory. To move it to another machine, open `tcp://HOST:PORT`
//! instead.

use farslot::{FieldSize, Result, Store, TableOptions};

fn main() -> Result<()> {
    let store = Store::embedded()?;
    let options = TableOptions::new(10_000).values(FieldSize::UpTo(100));
    store.create("users", &options)?;

    let users = store.table("users")?;
    assert!(users.put(b"ada", b"Ada Lovelace")?, "the key is new");
    assert!(users.update(b"ada", b"Countess of Lovelace")?);
    assert_eq!(
        users.get(b"ada")?.as_deref(),
        Some(&b"Countess of Lovelace"[..])
    );
    assert_eq!(users.get(b"grace")?, None);

    users.for_each(|key, value| {
        let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        println!("{key}: {value}");
    })?;
    assert!(users.remove(b"ada")?);
    users.close()
}
