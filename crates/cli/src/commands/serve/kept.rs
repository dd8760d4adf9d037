//! Memory that outlives the process: `farslot serve --keep NAME`.

use crate::commands::keep::{failure, place};
use farslot::keeper::{Keeper, NodeMemory, Place, Taken};
use farslot::{Address, FabricError, Server, ServerOptions};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output;
use sd_notify::NotifyState;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The options of kept memory.
#[derive(clap::Args, Debug)]
pub struct KeepArgs {
    /// Have the memory outlive this process, under this name: it is held by systemd where the unit
    /// has FileDescriptorStoreMax=, or else by a process `farslot keep NAME`, which is started if
    /// it does not run. Once this process has ended, however it did, the same command goes on with
    /// all that was acknowledged. `farslot keep NAME --end` gives the memory up
    #[arg(long, value_name = "NAME")]
    keep: Option<String>,
    /// The directory in which the keeper is found; nobody else may be able to enter it
    /// [default: $XDG_RUNTIME_DIR/farslot]
    #[arg(long, value_name = "DIR", requires = "keep")]
    keep_dir: Option<PathBuf>,
}

/// After so long another is looked for, if none could be had in place of one that ended.
const TRIES_AGAIN: Duration = Duration::from_secs(1);
/// How long a keeper that was started may take until it listens.
const STARTING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// The memory of a node, and who holds it as well.
pub(super) struct KeptMemory {
    pub(super) memory: NodeMemory,
    /// Whether it is that of a process before.
    pub(super) is_back: bool,
    pub(super) holder: MemoryHolder,
}

impl KeptMemory {
    /// How much memory it is.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.lent_bytes()
    }

    /// Serves it. New memory that could not be served is not kept.
    ///
    /// # Errors
    /// That the holder cannot be told.
    pub(super) fn serve(
        self,
        addresses: &[&str],
        options: &ServerOptions,
    ) -> Result<(farslot::Result<Server>, Option<SupervisedKeeper>)> {
        let Self {
            memory,
            is_back,
            mut holder,
        } = self;
        let file = memory.file().try_clone_to_owned();
        let file = file.map_err(Failure::io("the memory"))?;
        let server = Server::start_on(addresses, memory, options);
        if server.is_err() && !is_back {
            holder.drop_memory()?;
        }
        Ok((server, holder.watched(file)))
    }
}

/// Who holds a memory beyond this process.
pub(super) enum MemoryHolder {
    Keeper(Box<(Place, Keeper)>),
    /// The service manager, under this name.
    Manager(String),
}

impl KeepArgs {
    /// Refuses what no memory can be kept for.
    pub fn check(&self, addresses: &[Address]) -> Result<()> {
        let by_nic = |address: &&Address| matches!(address, Address::Verbs { .. });
        match (&self.keep, addresses.iter().find(by_nic)) {
            (Some(_), Some(address)) => Err(Failure::Usage(format!(
                "--keep is not for {address}: memory that a NIC serves cannot be kept beyond its process"
            ))),
            (Some(name), None) if manager_of(name).is_none() => {
                place(self.keep_dir.as_deref(), name, "--keep-dir").map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The memory to be served: what is kept already, or new memory, which is kept from now on.
    ///
    /// # Errors
    /// Why what is kept cannot be gone on with, which stays kept; that nothing can be kept.
    pub(super) fn memory(&self, asked: Option<u64>, otherwise: u64) -> Result<Option<KeptMemory>> {
        let Some(name) = &self.keep else {
            return Ok(None);
        };
        let mut holder = match manager_of(name) {
            Some(manager) => manager,
            None => {
                let place = place(self.keep_dir.as_deref(), name, "--keep-dir")?;
                let keeper = keeper_at(&place)?;
                MemoryHolder::Keeper((place, keeper).into())
            }
        };
        if let Some(file) = holder.take()? {
            let refused = |error: FabricError| {
                Failure::Failed(match &error {
                    FabricError::MemoryInUse { .. } => error.to_string(),
                    _ => format!("{error}\n  {}", holder.hint()),
                })
            };
            let subject = format!("the kept memory {name:?}");
            let memory = NodeMemory::of_file(file, &subject).map_err(refused)?;
            let has = memory.lent_bytes();
            if asked.is_some_and(|asked| asked.next_multiple_of(8) != has) {
                return Err(Failure::Failed(format!(
                    "{subject} has {}, and --memory asks for {}\n  \
                     to go on with it, leave --memory out; {}",
                    output::sized(has),
                    output::sized(asked.unwrap_or(0)),
                    holder.hint()
                )));
            }
            if Server::is_whole(&memory)? {
                output::note(format_args!("{subject} is there: the node goes on with it"));
                return Ok(Some(KeptMemory {
                    memory,
                    is_back: true,
                    holder,
                }));
            }
            output::note(format_args!(
                "{subject} is made anew: the process before was killed while it restored the tables"
            ));
            drop(memory);
            holder.drop_memory()?;
        }
        let memory = Server::memory_to_keep(asked.unwrap_or(otherwise))?;
        holder.hold(memory.file())?;
        Ok(Some(KeptMemory {
            memory,
            is_back: false,
            holder,
        }))
    }
}

/// The service manager, if it holds files for this process.
fn manager_of(name: &str) -> Option<MemoryHolder> {
    std::env::var_os("NOTIFY_SOCKET")?;
    // How many it takes at most; unset, it takes none, or is too old to say so.
    std::env::var_os("FDSTORE")?;
    Some(MemoryHolder::Manager(format!("farslot-{name}")))
}

impl MemoryHolder {
    /// How memory is given up that cannot be gone on with.
    fn hint(&self) -> String {
        match self {
            Self::Keeper(keeper) => format!(
                "to give it up:  farslot keep {} --dir {} --end",
                keeper.0.name(),
                keeper.0.directory().display()
            ),
            Self::Manager(_) => {
                "to give it up:  systemctl stop UNIT; systemctl clean --what=fdstore UNIT".into()
            }
        }
    }

    fn take(&mut self) -> Result<Option<OwnedFd>> {
        match self {
            Self::Keeper(keeper) => match keeper.1.take().map_err(failure)? {
                Taken::Memory(file) => Ok(Some(file)),
                Taken::Nothing => Ok(None),
            },
            Self::Manager(name) => {
                let passed = sd_notify::listen_fds_with_names();
                let mut passed = passed.map_err(Failure::io("the files of the service manager"))?;
                let Some((number, _)) = passed.find(|(_, of)| of == name) else {
                    return Ok(None);
                };
                let path = format!("/proc/self/fd/{number}");
                let file = File::options().read(true).write(true).open(&path);
                Ok(Some(file.map_err(Failure::io(path))?.into()))
            }
        }
    }

    fn hold(&mut self, file: BorrowedFd<'_>) -> Result<()> {
        match self {
            Self::Keeper(keeper) => keeper.1.hold(file).map_err(failure),
            Self::Manager(name) => {
                let states = [NotifyState::FdStore, NotifyState::FdName(name)];
                sd_notify::notify_with_fds(&states, &[file])
                    .map_err(Failure::io("the service manager"))
            }
        }
    }

    /// Gives up what is held; the memory is used by nobody any more.
    pub(super) fn drop_memory(&mut self) -> Result<()> {
        match self {
            Self::Keeper(keeper) => keeper.1.drop_memory().map_err(failure),
            Self::Manager(name) => {
                let states = [NotifyState::FdStoreRemove, NotifyState::FdName(name)];
                sd_notify::notify(&states).map_err(Failure::io("the service manager"))
            }
        }
    }

    /// Looks after the keeper of this file.
    pub(super) fn watched(self, file: OwnedFd) -> Option<SupervisedKeeper> {
        match self {
            Self::Keeper(keeper) => Some(SupervisedKeeper {
                place: keeper.0,
                keeper: Some(keeper.1),
                tries_at: Instant::now(),
                file,
            }),
            Self::Manager(_) => None,
        }
    }
}

/// A keeper that is replaced when it ends.
pub(super) struct SupervisedKeeper {
    place: Place,
    /// None where no other could be had yet.
    keeper: Option<Keeper>,
    /// When it tries again to have one.
    tries_at: Instant,
    file: OwnedFd,
}

impl SupervisedKeeper {
    /// Has another keeper hold the memory if the one that did has ended.
    pub(super) fn look(&mut self) {
        let is_there = |keeper: &Keeper| !keeper.has_ended();
        if self.keeper.as_ref().is_some_and(is_there) || Instant::now() < self.tries_at {
            return;
        }
        self.keeper = None;
        let name = self.place.name();
        let next = keeper_at(&self.place).and_then(|mut keeper| {
            keeper.hold(self.file.as_fd()).map_err(failure)?;
            Ok(keeper)
        });
        match next {
            Ok(keeper) => {
                self.keeper = Some(keeper);
                output::note(format_args!(
                    "the keeper of {name:?} has ended; another holds the memory now"
                ));
            }
            // One that is just ending still takes a connection.
            Err(error) => {
                output::note(format_args!(
                    "error: the keeper of {name:?} has ended, and no other can be had yet: {error}"
                ));
                self.tries_at = Instant::now() + TRIES_AGAIN;
            }
        }
    }
}

/// The keeper at a place, which is started if there is none.
fn keeper_at(place: &Place) -> Result<Keeper> {
    let until = Instant::now() + STARTING;
    let mut is_started = false;
    loop {
        if let Some(keeper) = Keeper::connect(place).map_err(failure)? {
            return Ok(keeper);
        }
        if Instant::now() >= until {
            return Err(Failure::Failed(format!(
                "the keeper of {:?} was started, and did not listen within 10 s",
                place.name()
            )));
        }
        if !is_started {
            start_keeper(place)?;
            is_started = true;
        }
        std::thread::sleep(LOOK);
    }
}

/// Starts a keeper that stays when this process ends, and its terminal.
fn start_keeper(place: &Place) -> Result<()> {
    let failed = || Failure::io("the keeper");
    let program = std::env::current_exe().map_err(failed())?;
    let mut keeper = Command::new(program)
        .args(["keep", place.name(), "--dir"])
        .arg(place.directory())
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed())?;
    // If it ends before this process, somebody has to have asked for how.
    let waiting = std::thread::Builder::new().name("keeper".into());
    let waiting = waiting.spawn(move || drop(keeper.wait()));
    waiting.map(drop).map_err(failed())
}
