//! CuckooDuo tables: histories under faults, owners that stop, growth, readers beside the owner,
//! and what all of it costs.

mod counts;
mod growth_costs;
mod growth_linearizable;
mod growth_map;
mod growth_placement;
mod growth_scale;
mod growth_stops;
mod heap;
mod linearizable;
mod model_map;
mod placement_model;
mod readers;
mod round_trips;
mod stale_readers;
