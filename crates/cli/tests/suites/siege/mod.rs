//! All that is hostile, at once, against one process of the program: admitted clients that damage
//! their own tables and call the owner with what is slow or makes no sense, unauthenticated
//! clients, and Redis clients that ask for much and take nothing. Its memory stays within what
//! `docs/security.md` allows, and good clients are answered correctly and soon.

mod bed;
mod callers;
mod good;
mod redis;
mod tables;
mod unauthenticated;

use self::bed::{Bed, MIB, Size};
use self::good::{Good, MEASURED, p99};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What all attackers, or the quiet clients in their place, share.
pub struct Field {
    pub ends: AtomicBool,
    /// Connections made, by the sides that make them: callers, unauthenticated clients, Redis
    /// clients.
    pub made: [AtomicUsize; 3],
    /// Requests that were sent whole, of callers and of Redis clients, by kind.
    pub sent: [[AtomicU64; 8]; 2],
    /// Those that the node cut off amid what they sent.
    pub cut: [[AtomicU64; 8]; 2],
}

/// Sides of [`Field::made`], of which the first and the last send requests.
const CALLERS: usize = 0;
const UNAUTHENTICATED: usize = 1;
const REDIS: usize = 2;

impl Field {
    fn new() -> Self {
        Self {
            ends: AtomicBool::new(false),
            made: Default::default(),
            sent: Default::default(),
            cut: Default::default(),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Gives clients their turns one after the other, so many in a second all together, until the
    /// end.
    pub fn take_turns<C>(&self, clients: &mut [C], rate: f64, mut turn: impl FnMut(&mut C)) {
        let (begun, mut taken) = (Instant::now(), 0.0);
        while !self.has_ended() {
            for client in &mut *clients {
                while begun.elapsed().as_secs_f64() * rate < taken {
                    if self.has_ended() {
                        return;
                    }
                    std::thread::sleep(Duration::from_micros(100));
                }
                turn(client);
                taken += 1.0;
            }
        }
    }

    pub fn has_made(&self, side: usize) {
        self.made[side].fetch_add(1, Ordering::AcqRel);
    }

    pub fn has_sent(&self, side: usize, kind: usize) {
        self.sent[side / 2][kind].fetch_add(1, Ordering::AcqRel);
    }

    pub fn has_been_cut(&self, side: usize, kind: usize) {
        self.cut[side / 2][kind].fetch_add(1, Ordering::AcqRel);
    }

    /// Requests of a side that were sent whole, by kind.
    fn sent_by(&self, side: usize) -> [u64; 8] {
        let counts = &self.sent[side / 2];
        std::array::from_fn(|kind| counts[kind].load(Ordering::Acquire))
    }

    /// Those that the node cut off.
    fn cut_by(&self, side: usize) -> [u64; 8] {
        let counts = &self.cut[side / 2];
        std::array::from_fn(|kind| counts[kind].load(Ordering::Acquire))
    }

    fn made_by(&self, side: usize) -> usize {
        self.made[side].load(Ordering::Acquire)
    }
}

/// Ends the attack also where an assertion fails, so that threads are joined.
struct Ends<'f>(&'f Field);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Release);
    }
}

/// Attacks for as long as `during` takes, once all connections were made.
fn besieged<T>(bed: &Bed, in_idle: bool, during: impl FnOnce(&Field) -> T) -> (T, Field) {
    let field = Field::new();
    let size = bed.size;
    let result = std::thread::scope(|scope| {
        let ends = Ends(&field);
        scope.spawn(|| callers::attack(bed, &field, in_idle));
        scope.spawn(|| unauthenticated::flock(bed, &field, in_idle));
        scope.spawn(|| redis::attack(bed, &field, in_idle));
        wait_for_all(&field, size);
        let result = during(&field);
        drop(ends);
        result
    });
    (result, field)
}

/// The same with as many clients that do no harm, and make as many requests a second.
fn quiet<T>(bed: &Bed, rates: [f64; 2], during: impl FnOnce(&Field) -> T) -> (T, Field) {
    let field = Field::new();
    let size = bed.size;
    let result = std::thread::scope(|scope| {
        let ends = Ends(&field);
        scope.spawn(|| callers::behave(bed, &field, rates[0]));
        scope.spawn(|| unauthenticated::idle(bed, &field));
        scope.spawn(|| redis::behave(bed, &field, rates[1]));
        wait_for_all(&field, size);
        let result = during(&field);
        drop(ends);
        result
    });
    (result, field)
}

fn wait_for_all(field: &Field, size: Size) {
    let since = Instant::now();
    let wanted = [
        size.callers,
        size.unauthenticated,
        size.redis * redis::KINDS,
    ];
    while (0..3).any(|side| field.made_by(side) < wanted[side]) {
        let made = [0, 1, 2].map(|side| field.made_by(side));
        assert!(
            since.elapsed() < Duration::from_secs(600),
            "of {wanted:?} connections there are {made:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The bytes that `docs/security.md` allows the process beyond what it lends, at such a size.
fn bound(size: Size) -> u64 {
    let kib = 1 << 10;
    // Those of one address besides: the good clients'.
    let connections = size.callers + 1_024 + 8;
    let redis = size.redis * redis::KINDS + 8;
    let agent = 128 * MIB + connections as u64 * 28 * kib + 256 * kib + 2 * 4 * MIB;
    let gateway = 256 * MIB + 2 * (205 * kib + 128 * MIB) + redis as u64 * kib;
    agent + gateway
}

/// Besieges a node until good clients have had so many rounds and every attacker has attacked.
/// Attackers that are thousands have only what processors have left: else they keep each other from
/// them.
fn stands(size: Size, in_idle: bool, least: Duration, rounds: u64) {
    let bed = Bed::new(size);
    let good = Good::new(&bed);
    // What the first requests of any kind leave.
    good.round(0);
    let before = bed.own_memory();
    let ((), field) = besieged(&bed, in_idle, |field| {
        let since = Instant::now();
        std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let mut most = 0;
                while !field.has_ended() {
                    most = most.max(bed.own_memory());
                    std::thread::sleep(Duration::from_millis(20));
                }
                most
            });
            let _ends = Ends(field);
            let mut round = 0;
            let attacks = || {
                let callers = field.sent_by(CALLERS)[..callers::KINDS].to_vec();
                [callers, field.sent_by(REDIS)[..redis::KINDS].to_vec()].concat()
            };
            while since.elapsed() < least || round < rounds || attacks().contains(&0) {
                round += 1;
                good.round(round);
                assert!(
                    since.elapsed() < Duration::from_secs(300),
                    "after {round} rounds: {:?}; cut off {:?} and {:?}",
                    attacks(),
                    field.cut_by(CALLERS),
                    field.cut_by(REDIS)
                );
            }
            println!("{round} rounds of good clients in {:?}", since.elapsed());
            field.ends.store(true, Ordering::Release);
            let most = watching.join().unwrap().saturating_sub(before);
            let high = bed.memory("VmHWM").saturating_sub(before);
            let bound = bound(size);
            println!(
                "memory beyond what is lent: {} MiB before, at most {} MiB more, and {} MiB are allowed; \
                 the most of any kind {} MiB more",
                before / MIB,
                most / MIB,
                bound / MIB,
                high / MIB
            );
            assert!(most <= bound, "{most} bytes more, and {bound} are allowed");
            let lent = bed.memory("RssShmem");
            assert!(high <= lent + bound, "{high} bytes more at a time");
        });
    });
    println!(
        "connections: {} callers, {} unauthenticated, {} of Redis; requests of callers {:?}, of Redis clients {:?}; \
         cut off {:?} and {:?}",
        field.made_by(CALLERS),
        field.made_by(UNAUTHENTICATED),
        field.made_by(REDIS),
        field.sent_by(CALLERS),
        field.sent_by(REDIS),
        field.cut_by(CALLERS),
        field.cut_by(REDIS)
    );
    bed.assert_unharmed();
}

#[test]
#[ignore = "takes half a minute and most of a machine"]
fn everything_hostile_at_once_leaves_a_node_its_bounds_and_good_clients_their_answers() {
    stands(Size::SMALL, false, Duration::from_secs(5), 20);
}

#[test]
#[ignore = "takes a minute and most of a machine"]
fn a_siege_of_full_size_leaves_a_node_its_bounds_and_good_clients_their_answers() {
    stands(
        Size::FULL.within_limits(),
        true,
        Duration::from_secs(20),
        1_000,
    );
}

/// How often attackers and quiet clients are measured by turns, and for how long.
const TURNS: usize = 3;
const A_TURN: Duration = Duration::from_secs(5);

/// What good clients wait for beside hostile ones and beside quiet ones is printed: times are no
/// matter for a test. All answers are right.
#[test]
#[ignore = "takes two minutes and most of a machine"]
fn good_clients_are_measured_beside_hostile_ones_and_beside_quiet_ones() {
    let bed = Bed::new(Size::FULL.within_limits());
    let good = Good::new(&bed);
    good.round(0);
    let mut measured: [[Vec<Duration>; 2]; MEASURED.len()] = Default::default();
    for turn in 0..TURNS {
        good.wait_until_others_left();
        let ((hostile, rates), field) = besieged(&bed, true, |field| {
            let sent = || [CALLERS, REDIS].map(|side| field.sent_by(side).iter().sum::<u64>());
            let (before, since) = (sent(), Instant::now());
            let took = good.measure(A_TURN);
            let after = sent();
            let rate = |of| (after[of] - before[of]) as f64 / since.elapsed().as_secs_f64();
            (took, [0, 1].map(rate))
        });
        println!(
            "{turn}: hostile: {:?} connections made, requests {:?} and {:?}; {:.0} and {:.0} a second \
             while it was measured",
            [0, 1, 2].map(|side| field.made_by(side)),
            field.sent_by(CALLERS),
            field.sent_by(REDIS),
            rates[0],
            rates[1]
        );
        good.wait_until_others_left();
        let (calm, field) = quiet(&bed, rates, |_| good.measure(A_TURN));
        println!(
            "{turn}: quiet: {:?} connections made, requests {:?} and {:?}",
            [0, 1, 2].map(|side| field.made_by(side)),
            field.sent_by(CALLERS),
            field.sent_by(REDIS)
        );
        for (of, label) in MEASURED.into_iter().enumerate() {
            let (calm, hostile) = (p99(&calm[of]), p99(&hostile[of]));
            println!(
                "{turn}: {label}: p99 {calm:?} beside quiet clients, {hostile:?} beside hostile ones"
            );
            measured[of][0].push(calm);
            measured[of][1].push(hostile);
        }
    }
    bed.assert_unharmed();
    let median = |all: &mut Vec<Duration>| {
        all.sort_unstable();
        all[all.len() / 2]
    };
    for (of, label) in MEASURED.into_iter().enumerate() {
        let [calm, hostile] = measured[of].each_mut().map(median);
        let times = hostile.as_secs_f64() / calm.as_secs_f64();
        println!("{label}: median p99 {calm:?} and {hostile:?}: {times:.1} times");
    }
}
