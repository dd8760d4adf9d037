//! Many operations in flight within one task, without an allocation for each.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

thread_local! {
    /// The completions that the operation which is being polled has waited for, one after the
    /// other.
    static CHAIN: Cell<u32> = const { Cell::new(0) };
    /// Whether what is being polled is one of several that run side by side, in a [`window`] or as
    /// tasks.
    static IS_ONE_OF_MANY: Cell<bool> = const { Cell::new(false) };
}

/// The length of the chain of completions that lead to what is being polled.
#[inline]
pub(crate) fn chain() -> u32 {
    CHAIN.get()
}

#[inline]
pub(crate) fn set_chain(length: u32) {
    CHAIN.set(length);
}

/// A completion has come that a chain of this length leads to.
#[inline]
pub(crate) fn chain_reaches(length: u32) {
    CHAIN.set(CHAIN.get().max(length));
}

/// Whether others have work to do while what is being polled waits for memory.
#[inline]
pub(crate) fn is_one_of_many() -> bool {
    IS_ONE_OF_MANY.get()
}

/// Lets the other tasks run that are ready, of whatever executor runs this one.
pub async fn let_others_run() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs the futures that `jobs` yields, at most `width` of them at a time, and gives each result
/// with its number to `done`, in the order in which they end.
///
/// All of them live in one allocation and are polled by their parent's waker: on a fabric whose
/// completions come in batches that is cheaper than a task for each.
pub fn window<F: Future>(
    width: usize,
    jobs: impl IntoIterator<Item = F>,
    done: impl FnMut(usize, F::Output),
) -> impl Future<Output = ()> {
    window_of(width, jobs, done, true)
}

/// The same of futures whose memory was prefetched, where it is mapped: what they read and change
/// there is done at once.
pub fn prefetched_window<F: Future>(
    width: usize,
    jobs: impl IntoIterator<Item = F>,
    done: impl FnMut(usize, F::Output),
) -> impl Future<Output = ()> {
    window_of(width, jobs, done, false)
}

fn window_of<F: Future>(
    width: usize,
    jobs: impl IntoIterator<Item = F>,
    done: impl FnMut(usize, F::Output),
    fetches: bool,
) -> impl Future<Output = ()> {
    let jobs = jobs.into_iter();
    let places = match jobs.size_hint() {
        (_, Some(most)) => width.min(most),
        (_, None) => width,
    }
    .max(1);
    // A plain loop: there are hundreds of kinds of futures, and this is compiled for each.
    let mut running = Vec::with_capacity(places);
    for _ in 0..places {
        running.push(None);
    }
    JobWindow {
        jobs,
        done,
        started: 0,
        running,
        fetches,
    }
}

/// Polls what posts several verbs before it waits for any of them: none of them is done at once.
pub fn posting_many<T>(poll: impl FnOnce() -> T) -> T {
    beside_others(true, poll)
}

/// Polls what runs beside others, or does not.
pub(crate) fn beside_others<T>(are_there: bool, poll: impl FnOnce() -> T) -> T {
    let outer = IS_ONE_OF_MANY.replace(are_there || is_one_of_many());
    let polled = poll();
    IS_ONE_OF_MANY.set(outer);
    polled
}

/// Runs two futures side by side to their ends.
///
/// An `async fn` would keep both twice, as its arguments and where they are pinned, and so twice
/// as often with each such call inside another: batches copy their futures as they begin them.
pub fn both<A: Future, B: Future>(a: A, b: B) -> impl Future<Output = (A::Output, B::Output)> {
    Joined {
        a,
        b,
        of_a: None,
        of_b: None,
    }
}

pin_project_lite::pin_project! {
    struct Joined<A: Future, B: Future> {
        #[pin]
        a: A,
        #[pin]
        b: B,
        of_a: Option<A::Output>,
        of_b: Option<B::Output>,
    }
}

impl<A: Future, B: Future> Future for Joined<A, B> {
    type Output = (A::Output, B::Output);

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // What has completed at once for one of them leads to nothing of the other.
        let before = chain();
        if this.of_a.is_none()
            && let Poll::Ready(output) = this.a.poll(cx)
        {
            *this.of_a = Some(output);
        }
        let of_a = chain();
        set_chain(before);
        if this.of_b.is_none()
            && let Poll::Ready(output) = this.b.poll(cx)
        {
            *this.of_b = Some(output);
        }
        chain_reaches(of_a);
        match (this.of_a.take(), this.of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            unfinished => {
                (*this.of_a, *this.of_b) = unfinished;
                Poll::Pending
            }
        }
    }
}

/// Runs two futures side by side, where the second may do nothing once the first has failed: it is
/// never polled again then. Verbs that they post at once leave in this order, and none of the
/// second is posted behind a failed one of the first, not even after both have waited for room in
/// the send queue.
///
/// # Errors
/// The first one's error. Verbs that the second has posted by then may take effect, if the fabric
/// lets a verb take effect behind a failed one.
pub async fn in_order<A, B: Future, X>(first: A, second: B) -> Result<B::Output, X>
where
    A: Future<Output = Result<(), X>>,
{
    let failed = FailureFlag::default();
    let second = failed.before(async { Ok::<_, X>(second.await) });
    let (of_first, of_second) = both(failed.before(first), second).await;
    of_first.unwrap_or(Ok(()))?;
    of_second.expect("nothing before it has failed")
}

/// Runs steps side by side as [`in_order`] does two: none is polled again once one has failed, and
/// so nothing is posted behind what failed.
///
/// # Errors
/// The error of the first step that failed.
pub async fn all_in_order<F, X>(steps: Vec<F>) -> Result<(), X>
where
    F: Future<Output = Result<(), X>>,
{
    let (failed, mut outcome) = (FailureFlag::default(), Ok(()));
    let width = steps.len();
    let steps = steps.into_iter().map(|step| failed.before(step));
    window(width, steps, |_, done| {
        if let Some(Err(error)) = done {
            outcome = Err(error);
        }
    })
    .await;
    outcome
}

/// Whether one of several futures has failed that are to take effect in order.
#[derive(Default)]
struct FailureFlag(Cell<bool>);

impl FailureFlag {
    /// What a step comes to; nothing, and it is not polled again, once another has failed.
    async fn before<T, X>(&self, step: impl Future<Output = Result<T, X>>) -> Option<Result<T, X>> {
        let mut step = pin!(step);
        poll_fn(|cx| {
            if self.0.get() {
                return Poll::Ready(None);
            }
            let polled = step.as_mut().poll(cx);
            self.0.set(matches!(polled, Poll::Ready(Err(_))));
            polled.map(Some)
        })
        .await
    }
}

struct JobWindow<I, F, D> {
    jobs: I,
    done: D,
    started: usize,
    /// A place for each job that may be under way, with its number. Nothing is added or taken away,
    /// so that the futures stay where they are.
    running: Vec<Option<(usize, F)>>,
    /// Whether others have work to do while one waits for mapped memory.
    fetches: bool,
}

// The futures are pinned in their places, not in the window itself.
impl<I, F, D> Unpin for JobWindow<I, F, D> {}

impl<F, I, D> Future for JobWindow<I, F, D>
where
    F: Future,
    I: Iterator<Item = F>,
    D: FnMut(usize, F::Output),
{
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut under_way = 0;
        let (before, mut longest) = (chain(), chain());
        let is_many = this.fetches && this.running.len() > 1 || is_one_of_many();
        let outer = IS_ONE_OF_MANY.replace(is_many);
        for place in &mut this.running {
            // What completes at once in one place leads to nothing in another.
            set_chain(before);
            loop {
                if place.is_none() {
                    let Some(job) = this.jobs.next() else { break };
                    if !this.fetches {
                        // It has not waited for the one before it.
                        longest = longest.max(chain());
                        set_chain(before);
                    }
                    *place = Some((this.started, job));
                    this.started += 1;
                }
                let Some((number, future)) = place else { break };
                let number = *number;
                // SAFETY: the vector never changes its length, and nothing is moved out of it: a
                // future stays in its place from the first poll until it is overwritten by `None`,
                // which drops it there.
                match unsafe { Pin::new_unchecked(future) }.poll(cx) {
                    Poll::Pending => {
                        under_way += 1;
                        break;
                    }
                    Poll::Ready(output) => {
                        *place = None;
                        (this.done)(number, output);
                    }
                }
            }
            longest = longest.max(chain());
        }
        set_chain(longest);
        IS_ONE_OF_MANY.set(outer);
        if under_way == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn never_more_than_the_width_and_every_job_once() {
        let (alive, most) = (Cell::new(0), Cell::new(0));
        let (alive, most) = (&alive, &most);
        let jobs = (0..100usize).map(|job| async move {
            alive.set(alive.get() + 1);
            most.set(most.get().max(alive.get()));
            let mut polls = job % 5;
            poll_fn(|_| {
                if polls == 0 {
                    return Poll::Ready(());
                }
                polls -= 1;
                Poll::Pending
            })
            .await;
            alive.set(alive.get() - 1);
            job
        });
        let seen: Vec<Cell<u32>> = vec![Cell::new(0); 100];
        let mut run = pin!(window(7, jobs, |number, job| {
            assert_eq!(number, job);
            seen[job].set(seen[job].get() + 1);
        }));
        let mut cx = Context::from_waker(Waker::noop());
        while run.as_mut().poll(&mut cx).is_pending() {}
        assert_eq!(most.get(), 7);
        assert!(seen.iter().all(|times| times.get() == 1));
    }

    #[test]
    fn what_comes_second_is_not_begun_behind_a_failure() {
        let mut cx = Context::from_waker(Waker::noop());
        for polls_until_failure in 0..3 {
            let mut left = polls_until_failure;
            let first = poll_fn(|_| {
                left -= 1;
                if left < 0 {
                    Poll::Ready(Err("lost"))
                } else {
                    Poll::Pending
                }
            });
            let polls = Cell::new(0);
            let second = poll_fn(|_| {
                polls.set(polls.get() + 1);
                Poll::<()>::Pending
            });
            let mut run = pin!(in_order(first, second));
            let outcome = loop {
                if let Poll::Ready(outcome) = run.as_mut().poll(&mut cx) {
                    break outcome;
                }
            };
            assert_eq!(outcome, Err("lost"));
            assert_eq!(polls.get(), polls_until_failure);
        }
    }

    #[test]
    fn no_step_is_polled_behind_one_that_has_failed() {
        let mut cx = Context::from_waker(Waker::noop());
        for fails in 0..4 {
            let polls: Vec<Cell<u32>> = vec![Cell::new(0); 4];
            let polls = &polls;
            // Each takes one turn more than the one before; one fails in its last.
            let steps = (0..4u32).map(|number| {
                poll_fn(move |_| {
                    let of_this = &polls[number as usize];
                    of_this.set(of_this.get() + 1);
                    match of_this.get() > number {
                        true if number == fails => Poll::Ready(Err(number)),
                        true => Poll::Ready(Ok(())),
                        false => Poll::Pending,
                    }
                })
            });
            let mut run = pin!(all_in_order(steps.collect()));
            let outcome = loop {
                if let Poll::Ready(outcome) = run.as_mut().poll(&mut cx) {
                    break outcome;
                }
            };
            assert_eq!(outcome, Err(fails));
            for (number, polls) in (0..).zip(polls) {
                let behind = number > fails;
                let expected = if behind { fails } else { number + 1 };
                assert_eq!(polls.get(), expected, "step {number}, {fails} fails");
            }
        }
    }

    #[test]
    fn both_that_are_in_order_are_waited_for() {
        let mut cx = Context::from_waker(Waker::noop());
        for (of_first, of_second) in [(0, 3), (3, 0), (2, 2)] {
            let after = |mut polls: i32| {
                poll_fn(move |_| {
                    polls -= 1;
                    if polls < 0 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
            };
            let first = async {
                after(of_first).await;
                Ok::<(), ()>(())
            };
            let second = async {
                after(of_second).await;
                "answer"
            };
            let mut run = pin!(in_order(first, second));
            let mut pending = 0;
            let outcome = loop {
                match run.as_mut().poll(&mut cx) {
                    Poll::Ready(outcome) => break outcome,
                    Poll::Pending => pending += 1,
                }
            };
            assert_eq!((outcome, pending), (Ok("answer"), of_first.max(of_second)));
        }
    }
}
