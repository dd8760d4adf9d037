//! A program that keeps tables in its own memory and lets Redis clients use them.
//!
//! ```sh
//! cargo run --release -p farslot-gateway --example serve -- 127.0.0.1:6390
//! redis-cli -p 6390
//! ```

use farslot::Store;
use farslot_gateway::{Gateway, GatewayOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1);
    let store = Store::embedded_with(1 << 30, Default::default())?;
    let options = GatewayOptions::at(listen.as_deref().unwrap_or("127.0.0.1:0"));
    let gateway = Gateway::start(&store, &options)?;
    println!("Redis clients at {}; Enter ends it", gateway.address());
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
