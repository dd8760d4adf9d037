//! Looks at every slot of a table, for those who ask for its picture.

use farslot::{Listing, Server, Survey, TableRecord};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long no table is surveyed after one was, for each second that it took: however many ask, a
/// fifth of one processor does it.
const REST: u32 = 4;

/// The last survey of each table that was asked for.
#[derive(Default, Debug)]
pub(crate) struct Surveys(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    running: bool,
    /// No survey begins before.
    rest_until: Option<Instant>,
    surveys: HashMap<String, TableSurvey>,
}

/// What a survey of a table has shown.
#[derive(Clone, Debug)]
struct TableSurvey {
    /// The table's id.
    of: u64,
    at: Instant,
    took: Duration,
    fields: Result<Map<String, Value>, String>,
}

impl Surveys {
    /// What the last survey of a table has shown, as a JSON object: `scheme`, and of a survey that
    /// has ended `seconds_ago`, `took_seconds` and either what [`survey_fields`] says or `error`.
    /// Nothing if there is no such table. Begins another survey, in a thread of its own, unless one
    /// runs or the last was just now.
    pub(crate) fn ask(&self, server: &Server, listing: &Listing, table: &str) -> Option<Value> {
        let record = |name: &str| listing.tables.iter().find(|table| table.name == name);
        let table = record(table)?;
        let mut state = lock(&self.0);
        // No more are kept than there are tables.
        let is_there = |name: &String, survey: &mut TableSurvey| {
            record(name).is_some_and(|r| r.id == survey.of)
        };
        state.surveys.retain(is_there);
        let rests = |until| Instant::now() < until;
        if !state.running && !state.rest_until.is_some_and(rests) {
            state.running = self.begin(server, table);
        }
        let mut object = Map::new();
        object.insert("scheme".into(), table.scheme.name().into());
        if let Some(survey) = state.surveys.get(&table.name) {
            object.insert(
                "seconds_ago".into(),
                survey.at.elapsed().as_secs_f64().into(),
            );
            object.insert("took_seconds".into(), survey.took.as_secs_f64().into());
            match &survey.fields {
                Ok(fields) => object.extend(fields.clone()),
                Err(error) => _ = object.insert("error".into(), error.as_str().into()),
            }
        }
        Some(object.into())
    }

    /// Whether a thread has begun.
    fn begin(&self, server: &Server, table: &TableRecord) -> bool {
        // It keeps the server's memory while it looks, not the server.
        let (look, table) = (server.surveyor(table), table.clone());
        let state = Arc::clone(&self.0);
        let survey = move || {
            let _ended = SurveyEnd(&state);
            let since = Instant::now();
            let shown = look();
            let at = Instant::now();
            let survey = TableSurvey {
                of: table.id,
                at,
                took: at - since,
                fields: shown
                    .map(|survey| survey_fields(&survey))
                    .map_err(|error| error.to_string()),
            };
            let mut state = lock(&state);
            state.rest_until = at.checked_add(survey.took * REST);
            state.surveys.insert(table.name, survey);
        };
        let thread = std::thread::Builder::new().name("farslot-survey".into());
        thread.spawn(survey).is_ok()
    }
}

/// The end of a survey, also of one that panics.
struct SurveyEnd<'s>(&'s Mutex<State>);

impl Drop for SurveyEnd<'_> {
    fn drop(&mut self) {
        lock(self.0).running = false;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a survey has shown, for JSON: `records`, `dead_slots`, `used_slots`, `load_factor`,
/// `occupancy` (slots in use per slot in each part of the table), and how the keys lie:
/// `clusters_by_log2_length` and `longest_cluster` of a linear table, `buckets_by_used_slots` of a
/// cuckoo or CuckooDuo table, `subtables_by_splits` of a RACE table, and what else is the scheme's
/// own.
#[must_use]
pub fn survey_fields(survey: &Survey) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| _ = fields.insert(name.into(), value);
    add("records", survey.live().into());
    add("dead_slots", survey.dead().into());
    add("used_slots", (survey.live() + survey.dead()).into());
    add("load_factor", survey.load_factor().into());
    if !survey.parts().is_empty() {
        add("occupancy", survey.parts().into());
    }
    match survey {
        Survey::Linear(survey) => {
            add("clusters_by_log2_length", survey.clusters.clone().into());
            add("longest_cluster", survey.longest_cluster.into());
        }
        Survey::Cuckoo(survey) => {
            add(
                "buckets_by_used_slots",
                survey.counts.by_used.clone().into(),
            );
            add("displacements", survey.displacements.into());
        }
        Survey::Duo(survey) => {
            add(
                "buckets_by_used_slots",
                survey.counts.by_used.clone().into(),
            );
            add("stashed", survey.stashed.into());
            add("unsplit_buckets", survey.unsplit.into());
        }
        Survey::Race(survey) => {
            add("subtables_by_splits", survey.depths.clone().into());
            add("begun_slots", survey.begun.into());
            add("slots_behind", survey.behind.into());
        }
        _ => {}
    }
    fields
}
