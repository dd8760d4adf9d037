//! Which file uses what of which other, and the circles of that.

use crate::source::{Crate, ModuleId, Segments};
use std::collections::{BTreeMap, BTreeSet};

/// The names that a file takes from others, by the files: both by their numbers.
pub type Arrows = BTreeMap<usize, BTreeMap<usize, BTreeSet<String>>>;

/// What a path leads to.
#[derive(Clone, Copy)]
enum Found {
    Module(ModuleId),
    /// Something in a file.
    Item(usize),
}

/// Re-exports of re-exports that are followed at most.
const DEPTH: u32 = 16;

impl Crate {
    /// All arrows from file to file.
    pub fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (id, module) in self.modules.iter().enumerate() {
            for path in &module.uses {
                let to = match self.resolve(id, path, DEPTH) {
                    Some(Found::Module(found)) => self.modules[found].file,
                    Some(Found::Item(file)) => file,
                    None => continue,
                };
                if to != module.file {
                    let of_file = arrows.entry(module.file).or_default();
                    let name = path.last().cloned().unwrap_or_default();
                    of_file.entry(to).or_default().insert(name);
                }
            }
        }
        arrows
    }

    /// What a path means in a module; nothing if it leads out of the crate.
    fn resolve(&self, from: ModuleId, path: &Segments, depth: u32) -> Option<Found> {
        let mut found = Found::Module(from);
        for (index, name) in path.iter().enumerate() {
            let Found::Module(at) = found else {
                // A variant, an associated function, ...
                return Some(found);
            };
            found = match name.as_str() {
                "crate" => Found::Module(0),
                "self" => found,
                "super" => Found::Module(self.modules[at].parent?),
                name => match self.name(at, name, depth) {
                    Some(known) => known,
                    // One that a macro defines; the first may be another crate.
                    None if index > 0 => return Some(Found::Item(self.modules[at].file)),
                    None => return None,
                },
            };
        }
        Some(found)
    }

    /// What a name means in a module.
    fn name(&self, at: ModuleId, name: &str, depth: u32) -> Option<Found> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Found::Module(*child));
        }
        if module.items.iter().any(|item| item == name) {
            return Some(Found::Item(module.file));
        }
        let depth = depth.checked_sub(1)?;
        if let Some(import) = module.imports.get(name) {
            // A crate that is imported under its own name.
            let itself = import.len() == 1 && import[0] == name;
            return if itself {
                None
            } else {
                self.resolve(at, import, depth)
            };
        }
        module.globs.iter().find_map(|glob| {
            let Found::Module(opened) = self.resolve(at, glob, depth)? else {
                return None;
            };
            self.name(opened, name, depth)
        })
    }
}

/// The sets of files that reach each other, of more than one file each.
pub fn circles(arrows: &Arrows) -> Vec<BTreeSet<usize>> {
    let reach: BTreeMap<usize, BTreeSet<usize>> = arrows
        .keys()
        .map(|file| (*file, reachable(arrows, *file)))
        .collect();
    let mut circles = BTreeSet::new();
    for (file, reached) in &reach {
        let back = |other: &&usize| reach.get(*other).is_some_and(|reach| reach.contains(file));
        let circle: BTreeSet<usize> = reached.iter().filter(back).copied().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable(arrows: &Arrows, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for to in arrows.get(&file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                open.push(*to);
            }
        }
    }
    reached
}
