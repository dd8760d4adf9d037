//! What SIGHUP changes of the options of `farslot serve`, and what it cannot change.

use farslot_terminal::output;
use farslot_terminal::settings::Settings;
use std::collections::BTreeMap;

/// Options by their keys. Those without a value are not there.
pub(super) type OptionValues = BTreeMap<String, toml::Value>;

/// The options that have values.
pub(super) fn values_of(settings: &Settings) -> OptionValues {
    let settings = settings.all().into_iter();
    settings
        .map(|setting| (setting.key, setting.value))
        .collect()
}

/// How the options differ now from those that are in force.
pub(super) struct OptionChanges<'f> {
    in_force: &'f mut OptionValues,
    now: OptionValues,
}

impl<'f> OptionChanges<'f> {
    pub(super) const fn new(in_force: &'f mut OptionValues, now: OptionValues) -> Self {
        Self { in_force, now }
    }

    /// Notes that these options are in force as they are now.
    pub(super) fn applied(&mut self, keys: &[&str]) {
        for &key in keys {
            let (before, now) = (self.in_force.get(key), self.now.get(key));
            if before == now {
                continue;
            }
            output::note(format_args!(
                "{key} is {} now; it was {}",
                shown(now),
                shown(before)
            ));
            match now.cloned() {
                Some(value) => self.in_force.insert(key.to_owned(), value),
                None => self.in_force.remove(key),
            };
        }
    }

    /// Says which options are in force as they were, although they are others now.
    pub(super) fn tell_the_rest(self) {
        let mut keys: Vec<_> = self.in_force.keys().chain(self.now.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let (before, now) = (self.in_force.get(key), self.now.get(key));
            if before != now {
                output::note(format_args!(
                    "{key} is {} until a restart; then it is {}",
                    shown(before),
                    shown(now)
                ));
            }
        }
    }
}

fn shown(value: Option<&toml::Value>) -> String {
    value.map_or_else(|| "not set".into(), ToString::to_string)
}
