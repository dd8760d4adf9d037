//! Lines through measured times, by least squares of the relative errors: a time of 10 ns counts as
//! much as one of 10 us.

use serde::Serialize;

/// A time that a verb of some payload takes: (bytes, ns).
pub(super) type FitPoint = (f64, f64);

/// A time that grows with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Nanoseconds without payload.
    pub intercept: f64,
    /// Nanoseconds for each byte.
    pub slope: f64,
}

impl Line {
    /// The time for so many bytes, in ns.
    #[must_use]
    pub fn at(&self, bytes: f64) -> f64 {
        self.intercept + self.slope * bytes
    }

    /// The line nearest to these points, of which there are at least two.
    pub(super) fn through(points: &[FitPoint]) -> Self {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points {
            let weight = 1.0 / (y * y);
            w += weight;
            wx += weight * x;
            wy += weight * y;
            wxx += weight * x * x;
            wxy += weight * x * y;
        }
        let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
        Self {
            intercept: (wy - slope * wx) / w,
            slope,
        }
    }

    /// The slope of the line nearest to these points that meets the first of them.
    pub(super) fn slope_from_first(points: &[FitPoint]) -> f64 {
        let (first_x, first_y) = points[0];
        let (mut above, mut below) = (0.0, 0.0);
        for (x, y) in &points[1..] {
            let weight = 1.0 / (y * y);
            above += weight * (x - first_x) * (y - first_y);
            below += weight * (x - first_x) * (x - first_x);
        }
        above / below
    }
}

/// The time for which a saturated NIC is busy with a READ: its responder's up to some payload, and
/// from there on the link's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NicOccupancy {
    /// The responder's.
    pub responder: Line,
    /// The link's; nothing where a READ's payload never gets dearer than the responder makes it.
    pub link: Option<Line>,
}

/// The fewest points that a line is drawn through.
const FEWEST: usize = 3;
/// The longest payload, in bytes, that the responder's line is drawn through where no link shows:
/// lookups read less, and what a longer one costs must not bend it.
const LONGEST_OF_LOOKUPS: f64 = 4096.0;

impl NicOccupancy {
    /// The lines nearest to these points, sorted by payload: at least six.
    ///
    /// Every payload is tried as the one from which on the link decides. It can only be one where
    /// the times bend upward: the link's line must be the steeper one.
    pub(super) fn through(points: &[FitPoint]) -> Self {
        let alone = Self::without_link(points);
        let splits = (FEWEST..=points.len() - FEWEST).map(|split| Self {
            responder: Line::through(&points[..split]),
            link: Some(Line::through(&points[split..])),
        });
        let bends = |fit: &Self| {
            fit.link
                .is_some_and(|link| link.slope > fit.responder.slope)
        };
        splits
            .filter(bends)
            .chain([alone])
            .min_by(|one, other| one.misfit(points).total_cmp(&other.misfit(points)))
            .unwrap_or(alone)
    }

    /// One line, through the points of the READs that are no longer than those of lookups.
    pub(super) fn without_link(points: &[FitPoint]) -> Self {
        let short = points.partition_point(|(bytes, _)| *bytes <= LONGEST_OF_LOOKUPS);
        Self {
            responder: Line::through(&points[..short.max(FEWEST)]),
            link: None,
        }
    }

    /// The time for so many bytes, in ns.
    #[must_use]
    pub fn at(&self, bytes: f64) -> f64 {
        let link = self.link.map_or(0.0, |link| link.at(bytes));
        self.responder.at(bytes).max(link)
    }

    fn misfit(&self, points: &[FitPoint]) -> f64 {
        points
            .iter()
            .map(|(bytes, ns)| (self.at(*bytes) / ns - 1.0).powi(2))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(time: impl Fn(f64) -> f64) -> Vec<FitPoint> {
        (3..17)
            .map(|power| f64::from(1 << power))
            .map(|bytes| (bytes, time(bytes)))
            .collect()
    }

    fn close(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-6
    }

    #[test]
    fn a_line_is_found() {
        let line = Line::through(&points(|bytes| 15.0 + 0.07 * bytes));
        assert!(close(line.intercept, 15.0) && close(line.slope, 0.07));
        let slope = Line::slope_from_first(&points(|bytes| 1290.0 + 0.08 * bytes));
        assert!(close(slope, 0.08));
    }

    #[test]
    fn relative_errors_count() {
        // A long READ that is a tenth dearer than its line moves a short one's time by little.
        let bent = |bytes: f64| (15.0 + 0.07 * bytes) * if bytes > 60_000.0 { 1.1 } else { 1.0 };
        let line = Line::through(&points(bent));
        assert!((line.at(8.0) / 15.56 - 1.0).abs() < 0.02, "{line:?}");
    }

    #[test]
    fn responder_and_link_are_told_apart() {
        let fit = NicOccupancy::through(&points(|bytes| {
            (15.0 + 0.0713 * bytes).max((bytes + 30.0) / 12.5)
        }));
        let link = fit.link.unwrap();
        assert!(close(fit.responder.intercept, 15.0) && close(fit.responder.slope, 0.0713));
        assert!(close(1.0 / link.slope, 12.5) && close(link.intercept, 2.4));
    }

    #[test]
    fn no_link_is_seen_where_long_reads_get_cheaper() {
        let fit = NicOccupancy::through(&points(|bytes| {
            (30.0 + 0.15 * bytes).min(100.0 + 0.1 * bytes)
        }));
        assert_eq!(fit.link, None);
        assert!((fit.at(8.0) / 31.2 - 1.0).abs() < 0.1, "{fit:?}");
    }
}
