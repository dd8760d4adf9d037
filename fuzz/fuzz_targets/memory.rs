//! A table whose memory is damaged under a reader and a writer.
#![no_main]

#[allow(dead_code, reason = "the tests name the tables that they damage")]
#[path = "../../crates/store/tests/common/damaged.rs"]
mod damaged;

use damaged::{Shape, damage, shapes};
use std::sync::LazyLock;

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(shapes);

// The first byte says which table, the others are drawn from; behind the last there are zeros.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let mut words = rest.chunks(8);
    let draw = || {
        let mut word = [0; 8];
        let next = words.next().unwrap_or_default();
        word[..next.len()].copy_from_slice(next);
        u64::from_le_bytes(word)
    };
    damage(&SHAPES[usize::from(*first) % SHAPES.len()], Box::new(draw));
});
