//! One table over three memory nodes, reached by TCP. When one of them ends, only its keys fail.

use farslot::{FieldSize, Result, Server, Store, TableOptions};

fn main() -> Result<()> {
    // Port 0 takes any free port. In earnest each node is a `farslot serve` on a machine of its
    // own.
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Server::start("tcp://127.0.0.1:0", 64 << 20)?);
    }
    let hosts: Vec<String> = nodes
        .iter()
        .map(|node| node.addresses()[0].to_string().replace("tcp://", ""))
        .collect();
    let address = format!("tcp://{}", hosts.join(","));
    println!("{address}");

    let store = Store::open(&address)?;
    store.create(
        "users",
        &TableOptions::new(30_000).values(FieldSize::UpTo(32)),
    )?;
    let users = store.table("users")?;
    for number in 0..300_u32 {
        users.put(format!("user {number}").as_bytes(), b"here")?;
    }
    for part in users.partitions() {
        println!("{part:?}");
    }

    nodes.pop();
    let (mut served, mut failed) = (0, 0);
    for number in 0..300_u32 {
        match users.get(format!("user {number}").as_bytes()) {
            Ok(value) => {
                assert_eq!(value.as_deref(), Some(&b"here"[..]));
                served += 1;
            }
            Err(_) => failed += 1,
        }
    }
    println!("with one node gone: {served} keys served, {failed} failed");
    assert!(served > 0 && failed > 0);
    Ok(())
}
