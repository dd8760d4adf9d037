//! Fences, to which the agent sees: what a client posted before it was deposed, and what is sent
//! late, does nothing.

use crate::bed::{Asking, Network, Tcp, at, client, served};
use crate::proxy::Proxy;
use farslot_fabric::tcp::TcpEndpoint;
use farslot_fabric::*;

const WORD: u64 = 64;
const MARK: u64 = 7;
/// Longer than what the agent waits for whole.
const LONG: usize = 64 << 10;

fn is_deposed<T: std::fmt::Debug>(outcome: Result<T>, offset: u64) {
    let at = at(offset);
    assert_eq!(
        outcome.unwrap_err(),
        FabricError::Deposed { at, sent: true }
    );
}

async fn write(endpoint: &TcpEndpoint, to: u64, len: usize, word: u64) -> Result<()> {
    let mut data = endpoint.core().buffers.take(len)?;
    data.words_mut().fill(word);
    endpoint.write(at(to), data).await
}

/// Every verb that changes memory behind the word is refused, and no other.
async fn is_fenced_off(endpoint: &TcpEndpoint) {
    is_deposed(write(endpoint, 128, 8, 1).await, 128);
    is_deposed(write(endpoint, 131, 2, 1).await, 131);
    is_deposed(write(endpoint, 128, LONG, 1).await, 128);
    is_deposed(endpoint.compare_swap(at(72), 0, 1).await, 72);
    is_deposed(endpoint.fetch_add(at(72), 1).await, 72);
    let data = endpoint.core().buffers.take(8).unwrap();
    is_deposed(endpoint.write_imm(at(128), data, 1).await, 128);
    let read = endpoint.read(at(72), LONG).await.unwrap();
    assert!(read.words().iter().all(|word| *word == 0));
    assert_eq!(endpoint.fetch_add(at(0), 1).await, Ok(0), "before the word");
    assert_eq!(endpoint.fetch_add(at(0), u64::MAX).await, Ok(1));
}

#[test]
fn a_deposed_client_changes_nothing_behind_the_word() {
    let (_node, agent) = served::<Tcp>(1 << 20);
    let (executor, other) = (client::<Tcp>(&agent), client::<Tcp>(&agent));
    let endpoint = executor.endpoint();
    let swap = |from, to| other.block_on(other.endpoint().compare_swap(at(WORD), from, to));
    executor.block_on(async {
        assert_eq!(endpoint.compare_swap(at(WORD), 0, MARK).await, Ok(0));
        assert!(endpoint.fence(at(WORD), MARK));
        write(endpoint, 128, LONG, 1).await.unwrap();
        assert_eq!(endpoint.fetch_add(at(72), 1).await, Ok(0));
        write(endpoint, 128, LONG, 0).await.unwrap();
        assert_eq!(endpoint.compare_swap(at(72), 1, 0).await, Ok(1));
    });
    assert_eq!(swap(MARK, 9), Ok(MARK));
    executor.block_on(is_fenced_off(endpoint));
    // The word itself is not behind it.
    executor.block_on(async {
        assert_eq!(endpoint.compare_swap(at(WORD), 9, MARK).await, Ok(9));
        assert_eq!(endpoint.fetch_add(at(72), 1).await, Ok(0));
        assert_eq!(endpoint.compare_swap(at(WORD), MARK, 9).await, Ok(MARK));
        is_deposed(endpoint.fetch_add(at(72), 1).await, 72);
        endpoint.fence(at(WORD), 0);
        assert_eq!(endpoint.fetch_add(at(72), 1).await, Ok(1));
    });
    // The other one never asked for a fence.
    assert_eq!(other.block_on(other.endpoint().fetch_add(at(72), 1)), Ok(2));
}

#[test]
fn what_was_posted_before_and_is_sent_late_is_refused() {
    let (_node, agent) = served::<Tcp>(1 << 20);
    let (executor, other) = (client::<Tcp>(&agent), client::<Tcp>(&agent));
    let endpoint = executor.endpoint();
    executor.block_on(async {
        assert_eq!(endpoint.compare_swap(at(WORD), 0, MARK).await, Ok(0));
        endpoint.fence(at(WORD), MARK);
    });
    let verb = Verb::FetchAdd { at: at(72), add: 1 };
    let mut posted = endpoint.post(verb).map_err(drop).unwrap();
    // It lies in the client's memory, as that of a client which is stopped before its doorbell.
    let deposing = other.endpoint().compare_swap(at(WORD), MARK, 9);
    assert_eq!(other.block_on(deposing), Ok(MARK));
    let outcome = executor.block_on(std::future::poll_fn(|cx| {
        endpoint.poll_posted(&mut posted, cx)
    }));
    is_deposed(outcome, 72);
    assert_eq!(other.block_on(other.endpoint().fetch_add(at(72), 0)), Ok(0));
}

#[test]
fn a_new_connection_has_the_fence_too() {
    let (_node, agent) = served::<Tcp>(1 << 20);
    let proxy = Proxy::to(Tcp::address(&agent));
    let connected = Tcp::connect(&[proxy.address()], &Asking::default(), false).unwrap();
    let executor = Executor::new(std::rc::Rc::new(connected));
    let endpoint = executor.endpoint();
    executor.block_on(async {
        assert_eq!(endpoint.compare_swap(at(WORD), 0, MARK).await, Ok(0));
        endpoint.fence(at(WORD), MARK);
        assert_eq!(endpoint.compare_swap(at(WORD), MARK, 9).await, Ok(MARK));
        proxy.cut();
        while endpoint.read(at(0), 8).await.is_err() {}
        is_fenced_off(endpoint).await;
        // One that was ended is not.
        endpoint.fence(at(WORD), 0);
        proxy.cut();
        while endpoint.read(at(0), 8).await.is_err() {}
        assert_eq!(endpoint.fetch_add(at(72), 1).await, Ok(0));
    });
}

#[test]
fn a_fence_by_what_is_no_word_of_the_client_is_none() {
    let (_node, agent) = served::<Tcp>(1 << 20);
    let executor = client::<Tcp>(&agent);
    let endpoint = executor.endpoint();
    executor.block_on(async {
        for offset in [3, 1 << 20, u64::MAX] {
            endpoint.fence(at(offset), MARK);
            assert_eq!(endpoint.fetch_add(at(8), 0).await, Ok(0), "{offset}");
        }
    });
}
