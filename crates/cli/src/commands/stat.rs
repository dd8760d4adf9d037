//! `farslot stat`: what is in a store, and how a table's keys lie.

use super::tables::described_damage;
use crate::draw;
use crate::shape::{SchemeDetail, SchemeShape, described};
use comfy_table::{CellAlignment, presets};
use farslot::health::{CuckooSurvey, DuoSurvey, NodeReport, PartitionReport, RaceSurvey};
use farslot::layout::Scheme;
use farslot::{
    FabricError, IndexError, Listing, MemoryUse, Occupancy, Store, StoreError, Survey, Table,
};
use farslot_operate::survey_fields;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use serde_json::{Value, json};

/// The options of `farslot stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table [default: list all tables]
    table: Option<String>,
}

/// Lists the tables, or draws one. It fails if a node is down or an entry of the catalog is
/// damaged, when all that can be told is.
///
/// # Errors
/// What the fabric says, or that there is no such table; [`Failure::Reported`] of what is down.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let store = context.store()?;
    match args.table {
        None => show_store(&store, context.json),
        Some(name) => show_table(&store.table(&name)?, context.json),
    }
}

fn show_store(store: &Store, as_json: bool) -> Result<()> {
    let memory = store.memory()?;
    let nodes = match store.address().nodes().len() {
        1 => Vec::new(),
        _ => store.nodes()?,
    };
    let records = store.listing()?;
    for damaged in &records.damaged {
        output::note(damaged);
    }
    let mut tables = Vec::with_capacity(records.tables.len());
    for record in &records.tables {
        match store
            .table(&record.name)
            .map_err(Failure::from)
            .and_then(Listed::of)
        {
            Ok(listed) => tables.push(listed),
            // The others can be listed all the same.
            Err(Failure::Store { error, .. }) if is_of_the_table_alone(&error) => {
                output::note(format_args!("{}: {error}", record.name));
            }
            Err(failure) => return Err(failure),
        }
    }
    if as_json {
        let mut object = json!({
            "address": store.address().to_string(),
            "memory_bytes": memory.total,
            "memory_taken": memory.taken,
            "memory_free": memory.free(),
            "memory_by": parts_of_memory(&tables).described(),
            "tables": tables.iter().map(Listed::described).collect::<Vec<_>>(),
        });
        if !records.damaged.is_empty() {
            object["damaged"] = records.damaged.iter().map(described_damage).collect();
        }
        if !nodes.is_empty() {
            object["nodes"] = nodes.iter().map(super::nodes::described).collect();
        }
        output::json(&object)?;
        return all_well(&nodes, &records);
    }
    output::line(format!(
        "{}: {}, {}",
        store.address(),
        output::counted(tables.len() as u64, "table"),
        memory_line(&memory)
    ))?;
    if !nodes.is_empty() {
        output::line(super::nodes::listing(&nodes).to_string())?;
    }
    if !tables.is_empty() {
        output::line(parts_of_memory(&tables).listing().to_string())?;
        output::line(listing(&tables).to_string())?;
    }
    all_well(&nodes, &records)
}

/// Fails if a node is down or an entry of the catalog is damaged, where that has been told.
fn all_well(nodes: &[NodeReport], records: &Listing) -> Result<()> {
    match records.damaged.is_empty() {
        true => super::nodes::all_up(nodes),
        false => Err(Failure::Reported),
    }
}

/// Whether a table that cannot be listed says nothing of the others: a part of it is elsewhere, or
/// the grant does not open it.
fn is_of_the_table_alone(error: &StoreError) -> bool {
    match error {
        StoreError::MissingNodes { .. } | StoreError::ConflictingTables { .. } => true,
        error => matches!(error.fabric(), Some(FabricError::AccessDenied { .. })),
    }
}

/// A table with what its clients have counted.
struct Listed {
    table: Table,
    /// Nothing if it is to be built and is not; of a table over several nodes, what those have that
    /// answer.
    counts: Option<Occupancy>,
    /// Of a table over several nodes.
    parts: Vec<PartitionReport>,
}

impl Listed {
    fn of(table: Table) -> Result<Self> {
        let parts = table.partitions();
        let counts = counts_of(&table, &parts)?;
        Ok(Self {
            table,
            counts,
            parts,
        })
    }

    /// Its shape; of a table over several nodes, of what is reached of it together.
    fn shape(&self) -> SchemeShape {
        let shape = SchemeShape::of(self.table.scheme());
        match &self.counts {
            Some(counts) => shape.as_counted(self.table.scheme(), counts, &self.parts),
            None => shape,
        }
    }

    fn described(&self) -> Value {
        let mut object = with_counts(&self.table, &self.shape(), self.counts.as_ref());
        if !self.parts.is_empty() {
            object["partitions"] = parts_described(&self.parts);
        }
        object
    }
}

/// What a table holds, of which these are the parts: nothing if it is to be built and is not; of
/// one over several nodes, what those have that answer.
///
/// # Errors
/// What the fabric says.
pub(super) fn counts_of(table: &Table, parts: &[PartitionReport]) -> Result<Option<Occupancy>> {
    if parts.is_empty() {
        return Ok(built(table.occupancy())?);
    }
    let mut sum = Occupancy::default();
    let mut is_built = true;
    for part in parts {
        match built(part.occupancy.clone()) {
            Ok(Some(counts)) => sum += counts,
            Ok(None) => is_built = false,
            // The nodes' list says why.
            Err(StoreError::Node { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_built.then_some(sum))
}

/// What was counted; nothing of a table that is to be built and is not.
fn built(counts: farslot::Result<Occupancy>) -> farslot::Result<Option<Occupancy>> {
    match counts {
        Err(StoreError::Index(IndexError::NotBuilt)) => Ok(None),
        counts => counts.map(Some),
    }
}

/// The parts of a table over several nodes, for machines.
fn parts_described(parts: &[PartitionReport]) -> Value {
    let described = parts.iter().map(|part| {
        let mut object = json!({
            "partition": part.number,
            "node": part.address,
            "hash_slots": part.hash_slots,
            "table_bytes": part.table_bytes,
        });
        match &part.occupancy {
            Ok(counts) => {
                object["records"] = counts.entries.into();
                object["used_slots"] = counts.used_slots.into();
                object["load_factor"] = counts.load_factor().into();
                object["heap_used"] = counts.heap_used.into();
                object["heap_dead"] = counts.heap_dead.into();
                object["evicted"] = counts.evicted.into();
            }
            Err(error) => object["error"] = error.to_string().into(),
        }
        object
    });
    described.collect()
}

/// The parts of a table over several nodes, for people, one in a line.
fn parts_listing(parts: &[PartitionReport]) -> comfy_table::Table {
    let mut listing = output::new_table(presets::UTF8_FULL_CONDENSED);
    listing.set_header([
        "node",
        "state",
        "hash slots",
        "records",
        "load factor",
        "heap used",
    ]);
    for part in parts {
        let counted = |count: fn(&Occupancy) -> String| {
            (part.occupancy.as_ref()).map_or_else(|_| String::new(), count)
        };
        listing.add_row([
            part.address.clone(),
            match &part.occupancy {
                Ok(_) => "up".into(),
                Err(StoreError::Node { error, .. }) => error.to_string(),
                Err(error) => error.to_string(),
            },
            output::grouped(u64::from(part.hash_slots)),
            counted(|counts| output::grouped(counts.entries)),
            counted(|counts| format!("{:.3}", counts.load_factor())),
            counted(|counts| output::sized(counts.heap_used)),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = listing.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    listing
}

/// What has the memory that tables have taken, in bytes.
#[derive(Default)]
struct MemoryBy {
    /// Slots, directories and words of pages; of a scheme that keeps records there, these too.
    structure: u64,
    /// Records out of band.
    records: u64,
    /// Those that were replaced or removed, and whose memory has not come back.
    dead: u64,
    /// What is free for more of them.
    room: u64,
}

/// Of tables that are built and whose nodes answer.
fn parts_of_memory(tables: &[Listed]) -> MemoryBy {
    let counted = tables.iter().filter_map(|listed| {
        let counts = listed.counts.as_ref()?;
        Some((listed.shape().table_bytes, counts))
    });
    counted.fold(MemoryBy::default(), |sum, (bytes, counts)| MemoryBy {
        structure: sum.structure + bytes.saturating_sub(counts.heap_bytes),
        records: sum.records + counts.heap_used - counts.heap_dead,
        dead: sum.dead + counts.heap_dead,
        room: sum.room + counts.heap_bytes - counts.heap_used,
    })
}

impl MemoryBy {
    fn described(&self) -> Value {
        json!({
            "structure": self.structure,
            "records": self.records,
            "dead_records": self.dead,
            "room": self.room,
        })
    }

    fn listing(&self) -> comfy_table::Table {
        let mut listing = output::new_table(presets::UTF8_FULL_CONDENSED);
        let parts = [
            ("slots", self.structure),
            ("records in heaps", self.records),
            ("dead records", self.dead),
            ("room in heaps", self.room),
        ];
        listing.set_header(["taken by", "memory"]);
        for (part, bytes) in parts {
            listing.add_row([part.to_owned(), output::sized(bytes)]);
        }
        if let Some(column) = listing.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        listing
    }
}

fn memory_line(memory: &MemoryUse) -> String {
    format!(
        "{} of {} taken, {} free",
        output::sized(memory.taken),
        output::sized(memory.total),
        output::sized(memory.free())
    )
}

fn listing(tables: &[Listed]) -> comfy_table::Table {
    let mut listing = output::new_table(presets::UTF8_FULL_CONDENSED);
    listing.set_header([
        "table",
        "scheme",
        "records",
        "load factor",
        "slots",
        "keys",
        "values",
        "heap used",
        "memory",
    ]);
    for listed in tables {
        let Listed { table, counts, .. } = listed;
        let shape = listed.shape();
        let counted = |count: fn(&Occupancy) -> String| {
            counts.as_ref().map_or_else(|| "not built".into(), count)
        };
        listing.add_row([
            table.name().to_string(),
            shape.scheme.to_string(),
            counted(|counts| output::grouped(counts.entries)),
            counted(|counts| format!("{:.3}", counts.load_factor())),
            format!("{} {}", output::grouped(shape.slots), shape.slot_kind),
            match shape.detail {
                SchemeDetail::Items => "none".into(),
                _ => shape.key.to_string(),
            },
            shape.value.to_string(),
            counted(|counts| output::sized(counts.heap_used)),
            output::sized(shape.table_bytes),
        ]);
    }
    for column in [2, 3, 4, 7, 8] {
        if let Some(column) = listing.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    listing
}

fn with_counts(table: &Table, shape: &SchemeShape, counts: Option<&Occupancy>) -> Value {
    let mut object = described(table.name(), shape);
    if matches!(table.scheme(), Scheme::Sealed(_)) {
        object["built"] = counts.is_some().into();
    }
    let Some(counts) = counts else {
        return object;
    };
    object["records"] = counts.entries.into();
    object["used_slots"] = counts.used_slots.into();
    object["load_factor"] = counts.load_factor().into();
    object["heap_used"] = counts.heap_used.into();
    object["heap_dead"] = counts.heap_dead.into();
    object["evicted"] = counts.evicted.into();
    object
}

fn show_table(table: &Table, as_json: bool) -> Result<()> {
    let parts = table.partitions();
    let down = parts.iter().find(|part| part.occupancy.is_err());
    if let Some(PartitionReport {
        occupancy: Err(StoreError::Node { .. }),
        ..
    }) = down
    {
        return show_parts(table, parts, as_json);
    }
    let survey = table.survey()?;
    let counts = table.occupancy()?;
    let writer = table.writer()?;
    let shape = SchemeShape::of(table.scheme()).as_counted(table.scheme(), &counts, &parts);
    if as_json {
        let mut object = with_counts(table, &shape, Some(&counts));
        add_survey(&mut object, table, &survey, writer);
        if !parts.is_empty() {
            object["partitions"] = parts_described(&parts);
        }
        return output::json(&object);
    }
    let mut text = format!("{}: {}\n\n", table.name(), shape.summary());
    text += &numbers(table, &survey, &counts, writer);
    if !parts.is_empty() {
        text += &format!("\n{}\n", parts_listing(&parts));
    }
    if !survey.parts().is_empty() {
        text += "\noccupancy, from the first slot to the last\n";
        text += &draw::occupancy(survey.parts());
    }
    text += &how_keys_lie(&survey);
    output::line(text.trim_end())
}

/// Tells what can be told of a table over several nodes of which some do not answer, and fails.
fn show_parts(table: &Table, parts: Vec<PartitionReport>, as_json: bool) -> Result<()> {
    if as_json {
        let mut object = described(table.name(), &SchemeShape::of(table.scheme()));
        object["partitions"] = parts_described(&parts);
        output::json(&object)?;
    } else {
        output::line(format!("{}\n{}", table.name(), parts_listing(&parts)))?;
    }
    Err(Failure::Reported)
}

fn how_keys_lie(survey: &Survey) -> String {
    let heading = |class: &str, counted: &str, more: String| {
        format!("\n{class:>15}  {counted:>11}  ({more})\n")
    };
    match survey {
        Survey::Linear(survey) if survey.cluster_count() > 0 => {
            let longest = output::counted(survey.longest_cluster, "slot");
            heading(
                "cluster length",
                "clusters",
                format!("the longest has {longest}"),
            ) + &draw::classes(&survey.clusters, draw::lengths)
        }
        Survey::Cuckoo(CuckooSurvey { counts, .. }) | Survey::Duo(DuoSurvey { counts, .. }) => {
            let full = output::grouped(counts.full_buckets());
            heading("slots in use", "buckets", format!("{full} are full"))
                + &draw::classes(&counts.by_used, |used| used.to_string())
        }
        Survey::Race(survey) if survey.depths.len() > 1 => {
            let all = output::counted(survey.subtables(), "subtable");
            heading("splits", "subtables", format!("of {all}"))
                + &draw::classes(&survey.depths, |depth| depth.to_string())
        }
        _ => String::new(),
    }
}

fn numbers(table: &Table, survey: &Survey, counts: &Occupancy, writer: Option<u64>) -> String {
    let mut rows = vec![
        ("records", output::grouped(survey.live())),
        ("load factor", format!("{:.3}", survey.load_factor())),
    ];
    match survey {
        Survey::Linear(survey) => rows.push((
            "removed",
            format!("{} slots of removed keys", output::grouped(survey.dead)),
        )),
        Survey::Cuckoo(survey) => {
            let moved = output::counted(survey.displacements, "record");
            rows.push(("displaced", format!("{moved} by the puts of others")));
        }
        Survey::Counted(_) => {
            let writer = match table.is_sealed() {
                true => "none: the table is sealed",
                false => "the node, by calls of any number of clients",
            };
            rows.push(("writer", writer.into()));
        }
        Survey::Race(survey) => rows.extend(unfinished(survey)),
        Survey::Duo(survey) => {
            rows.push(("stash", output::counted(survey.stashed, "key")));
            if survey.unsplit > 0 {
                let left = output::counted(survey.unsplit, "bucket");
                rows.push(("growing", format!("{left} to be split")));
            }
        }
        _ => {}
    }
    rows.push(("read size", read_size(table)));
    if table.scheme().one_writer() {
        let no_writer = || match table.is_sealed() {
            true => "none: the table is sealed".into(),
            false => "none: the next to write may".into(),
        };
        rows.push((
            "writer",
            writer.map_or_else(no_writer, |mark| format!("client {mark}")),
        ));
    }
    if counts.heap_bytes > 0 {
        let taken = match table.scheme().is_pooled() {
            // It has what it has taken so far.
            true => "in whole pages, more as it grows".into(),
            false => {
                let share = counts.heap_used as f64 / counts.heap_bytes as f64 * 100.0;
                let all = output::sized(counts.heap_bytes);
                format!("of {all} in whole pages ({share:.1} %)")
            }
        };
        let (used, dead) = (counts.heap_used, counts.heap_dead);
        let (used, dead) = (output::sized(used), output::sized(dead));
        rows.push((
            "heap",
            format!("{used} {taken}; {dead} of it are dead records"),
        ));
    }
    if table.scheme().evicting().is_some() {
        let evicted = output::counted(counts.evicted, "record");
        rows.push(("evicted", format!("{evicted} so far")));
    }
    rows.iter()
        .map(|(name, value)| format!("{name:>12}  {value}\n"))
        .collect()
}

/// What splits and clients that have died have left in a RACE table: some words for each that there
/// is.
fn unfinished(survey: &RaceSurvey) -> impl Iterator<Item = (&'static str, String)> {
    let left = |name, count: u64, unit: &str| {
        (count > 0).then(|| (name, format!("{} slots {unit}", output::grouped(count))))
    };
    let begun = left("begun", survey.begun, "of insertions that are not decided");
    let behind = left("behind", survey.behind, "that a split has still to come to");
    begun.into_iter().chain(behind)
}

fn read_size(table: &Table) -> String {
    let slots = output::counted(table.read_size(), "slot");
    match SchemeShape::of(table.scheme()).detail {
        SchemeDetail::Cuckoo(shape) => format!("{slots} a READ, {} READs a lookup", shape.ways),
        SchemeDetail::Race { .. } => format!("{slots} a READ, 2 READs a lookup"),
        SchemeDetail::Nothing
        | SchemeDetail::Items
        | SchemeDetail::Growing { .. }
        | SchemeDetail::Duo { .. } => {
            format!("{slots} a lookup's READ")
        }
    }
}

/// Adds what a look at every slot has shown.
fn add_survey(object: &mut Value, table: &Table, survey: &Survey, writer: Option<u64>) {
    if let Value::Object(object) = object {
        object.extend(survey_fields(survey));
    }
    object["read_slots"] = table.read_size().into();
    if table.scheme().one_writer() {
        // Programs that read JSON numbers as doubles would round it.
        object["writer"] = writer.map(|mark| mark.to_string()).into();
    }
    if matches!(survey, Survey::Cuckoo(_)) {
        object["sealed"] = table.is_sealed().into();
    }
}
