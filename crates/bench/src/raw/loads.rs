//! Plain loads of the memory that READs over shared memory copy from.

use super::options::{Ceiling, Options};
use super::reads;
use crate::Result;
use crate::memory_limit::PREFETCHED_TOGETHER;
use farslot::fabric::shm::{LINE, Node};
use farslot::fabric::{RegionId, RemoteAddr};
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use std::hint::black_box;
use std::time::Instant;

const REGION: RegionId = RegionId(0);

/// Loads through a mapping, of as many lines together as a READ copies.
pub(super) struct Loads(pub(super) Node);

impl Loads {
    /// The lines that a READ of each place copies.
    fn lines_of(places: &[RemoteAddr], options: &Options) -> Vec<u64> {
        let lines = |place: &RemoteAddr| {
            let end = place.offset + options.read_bytes as u64;
            (place.offset..end).step_by(LINE)
        };
        places.iter().flat_map(lines).collect()
    }
}

impl Ceiling for Loads {
    fn many(&self, options: &Options) -> String {
        format!("loads of {} B, prefetched", options.read_bytes)
    }

    fn one(&self, options: &Options) -> String {
        format!("load of {} B, one at a time", options.read_bytes)
    }

    fn rate(&self, options: &Options, random: &mut ChaCha8Rng) -> Result<f64> {
        let places = reads::draw(options, options.operations, random);
        let lines = Self::lines_of(&places, options);
        let together = PREFETCHED_TOGETHER * options.read_bytes / LINE;
        let since = Instant::now();
        black_box(self.0.load_lines(REGION, &lines, together)?);
        Ok(places.len() as f64 / since.elapsed().as_secs_f64())
    }

    fn latency(
        &self,
        options: &Options,
        random: &mut ChaCha8Rng,
        latency: &mut Histogram<u64>,
    ) -> Result<()> {
        let places = reads::draw(options, options.single_reads, random);
        let lines = Self::lines_of(&places, options);
        let mut before = Instant::now();
        for lines in lines.chunks(options.read_bytes / LINE) {
            black_box(self.0.load_lines(REGION, lines, 1)?);
            let now = Instant::now();
            latency.saturating_record((now - before).as_nanos() as u64);
            before = now;
        }
        Ok(())
    }
}
