//! Where the options of a command come from: flags, environment variables, a file, defaults, in
//! this order.
//!
//! clap's definition of a command is the only list of its options. A key of the file that
//! `--config` names is the long name of a flag, and its value is put on the command line where
//! neither a flag nor a variable gives one. So clap parses, checks and refuses all alike.

use crate::failure::{Failure, Result};
use clap::error::ContextKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use serde::Serialize;
use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The environment variable with the secret: command lines can be read by all.
pub const SECRET: &str = "FARSLOT_SECRET";

/// The option that names the file, in the commands that have one.
const CONFIG: &str = "config";
/// Options that stand on the command line alone.
const NOT_IN_FILES: [&str; 4] = [CONFIG, "check_config", "help", "version"];

/// Files of text longer than this are rejected.
const LONGEST_TEXT: u64 = 1 << 20;

/// The options of a command, and where each comes from.
#[derive(Clone, Default, Debug)]
pub struct Settings {
    definition: Command,
    command_line: Vec<OsString>,
    matches: ArgMatches,
    file: Option<PathBuf>,
    /// The lines of the file's keys that are in force.
    lines: BTreeMap<String, usize>,
}

/// Why there are no options.
pub enum Rejected {
    /// The command line is wrong, or asks for help.
    CommandLine(clap::Error),
    /// The file is wrong.
    File(Failure),
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::CommandLine(error) => Self::Usage(first_paragraph(&error)),
            Rejected::File(failure) => failure,
        }
    }
}

/// Where a value comes from.
#[derive(Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Origin {
    /// The command line.
    Flag,
    /// The environment.
    Environment {
        /// Its variable.
        variable: String,
    },
    /// The file.
    File {
        /// Its line.
        line: usize,
    },
    /// Nowhere: the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => write!(f, "flag"),
            Self::Environment { variable } => write!(f, "environment, {variable}"),
            Self::File { line } => write!(f, "file, line {line}"),
            Self::Default => write!(f, "default"),
        }
    }
}

/// An option that has a value.
#[derive(Serialize)]
pub struct Setting {
    /// Its key in a file.
    #[serde(skip)]
    pub key: String,
    /// As a file would have it.
    pub value: toml::Value,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A key of the file.
struct Entry {
    key: String,
    line: usize,
    /// What it is on the command line.
    arguments: Vec<OsString>,
}

impl Settings {
    /// What the command line, the environment and the file say of a program's options.
    pub fn read(
        definition: Command,
        command_line: Vec<OsString>,
    ) -> std::result::Result<Self, Rejected> {
        let named = || {
            let given = definition.clone().ignore_errors(true);
            let given = given.try_get_matches_from(&command_line).ok()?;
            let (command, given) = given.subcommand()?;
            let file = given.try_get_one::<PathBuf>(CONFIG).ok()??.clone();
            Some((file, command.to_owned(), given.clone()))
        };
        // Whatever follows from a file is to be refused only when the file has been read.
        let flag = format!("--{CONFIG}");
        let may_name_one = |word: &OsString| word.as_bytes().starts_with(flag.as_bytes());
        let named = command_line.iter().any(may_name_one).then(named).flatten();
        let (file, entries) = match named {
            None => (None, Vec::new()),
            Some((file, command, given)) => {
                let entries = entries_of(&file, &definition, &command, &given);
                let entries = entries.map_err(Rejected::File)?;
                (Some(file), entries)
            }
        };
        let parse = |entries: &mut dyn Iterator<Item = &Entry>| {
            let mut words = command_line.clone();
            // What stands behind `--` is no option.
            let end = words.iter().position(|word| word == "--");
            let end = end.unwrap_or(words.len());
            words.splice(
                end..end,
                entries.flat_map(|entry| entry.arguments.iter().cloned()),
            );
            definition.clone().try_get_matches_from(words)
        };
        let matches = parse(&mut entries.iter()).map_err(|error| {
            // An entry is to blame without which this is not what is wrong.
            let blamed = file.as_ref().zip(entries.iter().find(|blamed| {
                let mut remaining = entries.iter().filter(|entry| entry.key != blamed.key);
                match parse(&mut remaining) {
                    Ok(_) => true,
                    Err(other) => what_is_wrong(&other) != what_is_wrong(&error),
                }
            }));
            match blamed {
                Some((file, entry)) if error.use_stderr() => {
                    Rejected::File(wrong(file, entry.line, first_paragraph(&error)))
                }
                _ => Rejected::CommandLine(error),
            }
        })?;
        let lines = entries.into_iter().map(|entry| (entry.key, entry.line));
        Ok(Self {
            lines: lines.collect(),
            definition,
            command_line,
            matches,
            file,
        })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_again(&self) -> Result<Self> {
        Ok(Self::read(
            self.definition.clone(),
            self.command_line.clone(),
        )?)
    }

    /// The options of the program and its command.
    pub const fn matches(&self) -> &ArgMatches {
        &self.matches
    }

    /// The options of the command that are in `T`.
    ///
    /// # Errors
    /// None, where the command has them.
    pub fn parsed<T: FromArgMatches>(&self) -> Result<T> {
        let of_command = self.matches.subcommand().map(|(_, matches)| matches);
        T::from_arg_matches(of_command.unwrap_or(&self.matches))
            .map_err(|error| Failure::Usage(first_paragraph(&error)))
    }

    /// The file, if one was named.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The options that have a value, in the order of the command's help.
    pub fn all(&self) -> Vec<Setting> {
        let Some((command, matches)) = self.matches.subcommand() else {
            return Vec::new();
        };
        let mut definition = self.definition.clone();
        let settings = options_of(&mut definition, command).into_iter();
        let settings = settings.filter_map(|option| self.setting(&option, matches));
        let mut settings: Vec<_> = settings.collect();
        // What stands without a flag is found first, and goes before the flag.
        let mut seen = HashSet::new();
        settings.retain(|setting| seen.insert(setting.key.clone()));
        settings
    }

    fn setting(&self, option: &Arg, matches: &ArgMatches) -> Option<Setting> {
        let key = key_of(option);
        let id = option.get_id().as_str();
        let source = matches.value_source(id)?;
        let origin = match (self.lines.get(&key), source) {
            (Some(line), _) if option.get_long().is_some() => Origin::File { line: *line },
            (_, ValueSource::EnvVariable) => Origin::Environment {
                variable: option.get_env()?.to_string_lossy().into(),
            },
            (_, ValueSource::DefaultValue) => Origin::Default,
            _ => Origin::Flag,
        };
        let value = match option.get_action() {
            ArgAction::SetTrue => matches.get_flag(id).into(),
            action => {
                let typed = |raw: &OsStr| -> toml::Value {
                    let text = raw.to_string_lossy();
                    match text.parse::<i64>() {
                        Ok(number) if !is_text(option) => number.into(),
                        _ => text.into_owned().into(),
                    }
                };
                let mut values = matches.get_raw(id)?.map(typed);
                match action {
                    ArgAction::Append => values.collect::<Vec<_>>().into(),
                    _ => values.next()?,
                }
            }
        };
        Some(Setting { key, value, origin })
    }
}

/// The options of a command that a file may have, those of the program among them.
fn options_of(definition: &mut Command, command: &str) -> Vec<Arg> {
    definition.build();
    let options = definition.find_subcommand(command).into_iter();
    let options = options.flat_map(Command::get_arguments);
    let options = options.filter(|option| !NOT_IN_FILES.contains(&option.get_id().as_str()));
    options.cloned().collect()
}

/// An option's key: its flag. What stands without a flag is the address.
fn key_of(option: &Arg) -> String {
    option.get_long().unwrap_or("address").to_owned()
}

/// Whether an option's value is text, whatever it looks like.
fn is_text(option: &Arg) -> bool {
    let parsed = option.get_value_parser().type_id();
    [TypeId::of::<String>(), TypeId::of::<PathBuf>()]
        .iter()
        .any(|text| parsed == *text)
}

/// Whether a variable of the environment, or a flag, says what the option is.
fn is_given(option: &Arg, given: &ArgMatches) -> bool {
    use ValueSource::{CommandLine, EnvVariable};
    // This variable has the secret itself, so clap does not know it.
    let by_secret = option.get_id() == "secret_file" && std::env::var_os(SECRET).is_some();
    let source = given.value_source(option.get_id().as_str());
    by_secret || matches!(source, Some(CommandLine | EnvVariable))
}

/// The entries of a file that are in force.
fn entries_of(
    file: &Path,
    definition: &Command,
    command: &str,
    given: &ArgMatches,
) -> Result<Vec<Entry>> {
    let options = options_of(&mut definition.clone(), command);
    let text = text_of(file, "options")?;
    let table = DeTable::parse(&text).map_err(|error| {
        Failure::Usage(format!(
            "{}: {}",
            file.display(),
            error.to_string().trim_end()
        ))
    })?;
    let mut keys: Vec<_> = table.get_ref().iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    let mut entries = Vec::with_capacity(keys.len());
    for (key, value) in keys {
        let line = text[..key.span().start].matches('\n').count() + 1;
        let key = key.get_ref().as_ref();
        let option = options.iter().find(|option| option.get_long() == Some(key));
        let option = option.ok_or_else(|| {
            let nearest = nearest(definition, command, key);
            let known = nearest.filter(|flag| options.iter().any(|one| key_of(one) == *flag));
            let unknown = match known {
                Some(flag) => format!("unknown key {key:?}; a similar one is {flag:?}"),
                None => format!("unknown key {key:?}; keys are the flags of `{command} --help`"),
            };
            wrong(file, line, unknown)
        })?;
        let arguments = arguments_of(option, value.get_ref())
            .map_err(|wanted| wrong(file, line, format!("{key}: {wanted}")))?;
        if !is_given(option, given) {
            entries.push(Entry {
                key: key.to_owned(),
                line,
                arguments,
            });
        }
    }
    Ok(entries)
}

/// The text of a file of `content`.
///
/// # Errors
/// A file that cannot be read, or that is too long.
pub fn text_of(file: &Path, content: &str) -> Result<String> {
    let shown = file.display();
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(LONGEST_TEXT + 1).read_to_string(&mut text))
        .map_err(Failure::io(shown.to_string()))?;
    if text.len() as u64 > LONGEST_TEXT {
        return Err(Failure::Failed(format!(
            "{shown}: a file of {content} has at most {LONGEST_TEXT} bytes"
        )));
    }
    Ok(text)
}

/// What an option's value in a file is on the command line; otherwise what is wanted.
fn arguments_of(option: &Arg, value: &DeValue<'_>) -> std::result::Result<Vec<OsString>, String> {
    let flag = format!("--{}", key_of(option));
    let names = option.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    let action = option.get_action();
    let wanted = |value: &DeValue<'_>| {
        let kind = match (action, is_text(option)) {
            (ArgAction::SetTrue, _) => "true or false is wanted".into(),
            (_, true) => format!("a string is wanted ({name})"),
            (_, false) => format!("a string or a number is wanted ({name})"),
        };
        let several = match action {
            ArgAction::Append => ", or an array of such",
            _ => "",
        };
        format!("{kind}{several}; this is of the type {}", value.type_str())
    };
    let word = |value: &DeValue<'_>| {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if !is_text(option) => {
                let parsed = u64::from_str_radix(number.as_str(), number.radix());
                parsed.map_or_else(|_| number.to_string(), |parsed| parsed.to_string())
            }
            DeValue::Float(number) if !is_text(option) => number.as_str().to_owned(),
            other => return Err(wanted(other)),
        };
        Ok(OsString::from(format!("{flag}={text}")))
    };
    match (action, value) {
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec![flag.into()]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, other) => Err(wanted(other)),
        (ArgAction::Append, DeValue::Array(values)) => {
            values.iter().map(|value| word(value.get_ref())).collect()
        }
        (_, value) => Ok(vec![word(value)?]),
    }
}

/// The flag of a command that clap takes for the nearest to an unknown one.
fn nearest(definition: &Command, command: &str, key: &str) -> Option<String> {
    let words = ["", command, &format!("--{key}")];
    let error = definition.clone().try_get_matches_from(words).err()?;
    let suggested = error.get(ContextKind::SuggestedArg)?.to_string();
    Some(suggested.trim_start_matches('-').to_owned())
}

fn wrong(file: &Path, line: usize, problem: impl fmt::Display) -> Failure {
    Failure::Usage(format!("{}: line {line}: {problem}", file.display()))
}

/// What an error of clap's is about, whatever else stands on the command line.
fn what_is_wrong(error: &clap::Error) -> impl PartialEq + use<> {
    use ContextKind::{InvalidArg, InvalidValue, PriorArg};
    let parts = [InvalidArg, InvalidValue, PriorArg];
    (
        error.kind(),
        parts.map(|part| error.get(part).map(ToString::to_string)),
    )
}

/// What an error of clap's says, without the usage behind it.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n").next().unwrap_or(text).to_owned()
}
