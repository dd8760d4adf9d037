//! `farslot push` and `farslot pop`: the items of a queue.

use crate::bytes;
use farslot::Queue;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::Write;

/// The options of `farslot push`.
#[derive(clap::Args, Debug)]
pub(crate) struct PushArgs {
    /// The table, a queue
    table: String,
    /// The items, the first of which is popped first
    #[arg(required = true, allow_negative_numbers = true)]
    values: Vec<OsString>,
    /// The items are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// The options of `farslot pop`.
#[derive(clap::Args, Debug)]
pub(crate) struct PopArgs {
    /// The table, a queue
    table: String,
    /// How many items to take, at the most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    count: u32,
    /// Look at the first item, and leave it there
    #[arg(long, conflicts_with = "count")]
    peek: bool,
    /// Write the items' bytes and no newlines
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Write the items as hexadecimal digits
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
}

/// Adds items to a queue, all or none.
///
/// # Errors
/// A table that is no queue, a queue that is full, an item that does not fit, or what the fabric
/// says.
pub(crate) fn push(args: PushArgs, context: &Context) -> Result<()> {
    context.shared_address()?;
    let hex = args.hex;
    let decode = |value| bytes::of_argument(value, hex).map_err(Failure::Usage);
    let items: Vec<_> = args.values.into_iter().map(decode).collect::<Result<_>>()?;
    let queue = context.store()?.queue(&args.table)?;
    let borrowed: Vec<_> = items.iter().map(Vec::as_slice).collect();
    let position = queue.push_all(&borrowed)?;
    queue.close()?;
    if context.json {
        return output::json(&serde_json::json!({
            "table": args.table, "pushed": items.len(), "position": position,
        }));
    }
    let pushed = output::counted(items.len() as u64, "item");
    output::note(format_args!("pushed {pushed}"));
    Ok(())
}

/// Takes the first items of a queue, and writes each as it comes.
///
/// # Errors
/// [`Failure::Reported`] of an empty queue; a table that is no queue, or what the fabric says.
pub(crate) fn pop(args: PopArgs, context: &Context) -> Result<()> {
    context.shared_address()?;
    let queue = context.store()?.queue(&args.table)?;
    let mut popped = 0;
    while popped < args.count {
        let items = take(&queue, &args, args.count - popped)?;
        if items.is_empty() {
            break;
        }
        popped += items.len() as u32;
        // Before more are taken: these are nowhere else any more.
        for item in &items {
            write(&args, context, item)?;
        }
    }
    queue.close()?;
    if popped == 0 && args.count > 0 {
        output::note(format_args!("the queue {:?} is empty", args.table));
        return Err(Failure::Reported);
    }
    Ok(())
}

fn take(queue: &Queue, args: &PopArgs, most: u32) -> Result<Vec<Vec<u8>>> {
    Ok(match args.peek {
        true => queue.front()?.into_iter().collect(),
        false => queue.pop_many(most)?,
    })
}

fn write(args: &PopArgs, context: &Context, item: &[u8]) -> Result<()> {
    if context.json {
        let mut object = Map::new();
        object.insert("table".into(), args.table.as_str().into());
        bytes::insert(&mut object, "value", item);
        return output::json(&Value::Object(object));
    }
    if args.raw {
        let mut out = std::io::stdout().lock();
        out.write_all(item)?;
        return Ok(out.flush()?);
    }
    match args.hex {
        true => output::line(bytes::to_hex(item)),
        false => output::line(item),
    }
}
