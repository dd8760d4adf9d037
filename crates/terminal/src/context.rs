//! What all commands share: the store's address and the form of the output.

use crate::access_arg::AccessArg;
use crate::failure::{Failure, Result};
use crate::output;
use crate::settings::{SECRET, Settings};
use farslot::admission::{DEFAULT_GRANT, Fingerprint, Secret, TlsClient, Trust};
use farslot::layout::RemoteAddr;
use farslot::{
    Address, FabricError, IndexError, OpenOptions, ReadPolicy, Rights, Store, StoreError, Table,
};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The options that stand before or after every command.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Context {
    /// Where the store is: shm://NAME, tcp://HOST:PORT or, under TLS, tcps://HOST:PORT, as given to
    /// `farslot serve`; over several nodes tcp://HOST:PORT,HOST:PORT,...
    #[arg(
        short,
        long,
        global = true,
        env = "FARSLOT_ADDRESS",
        value_name = "ADDRESS"
    )]
    pub address: Option<Address>,
    /// Print exactly one JSON object on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// What a tcp://, tcps:// or verbs:// address is served with and opened with: the first line of
    /// this file, at least 16 bytes; a second line is another that is served with as well [default:
    /// FARSLOT_SECRET of the environment]
    #[arg(long, global = true, env = "FARSLOT_SECRET_FILE", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// The grant under which a tcp:// or verbs:// address is used, with a secret of its own:
    /// "read-only" where the node has one, or a name of its file of grants (serve --grants)
    #[arg(
        long,
        global = true,
        env = "FARSLOT_GRANT",
        value_name = "NAME",
        default_value = DEFAULT_GRANT
    )]
    pub grant: String,
    /// Trust nodes at tcps:// addresses that have a certificate of this authority for their host
    #[arg(long, global = true, env = "FARSLOT_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Trust nodes at tcps:// addresses whose certificate has this SHA-256 fingerprint, several
    /// with commas between them, whatever host and time it is for
    #[arg(
        long,
        global = true,
        env = "FARSLOT_TLS_PIN",
        value_name = "HEX",
        value_delimiter = ',',
        conflicts_with = "tls_ca"
    )]
    pub tls_pin: Vec<Fingerprint>,
    /// The certificate by which this side of a tcps:// address proves itself: a node always, and at
    /// rediss:// and https:// addresses as well; a client if the node admits it by that instead of
    /// a secret. In PEM, its authority's last
    #[arg(long, global = true, env = "FARSLOT_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The private key to --tls-cert, in PEM
    #[arg(long, global = true, env = "FARSLOT_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// By what operations on keys are done at a tcp:// address
    #[arg(
        long,
        global = true,
        value_name = "HOW",
        default_value_t = AccessArg::default()
    )]
    pub access: AccessArg,
    /// Where these and the command's own options come from.
    #[arg(skip)]
    pub settings: Settings,
}

/// Files longer than this are rejected as secrets.
const LONGEST_SECRET: u64 = 4096;
/// And longer than this as certificates and keys.
const LONGEST_PEM: u64 = 1 << 20;
/// The new secret and the one before.
const MOST_SECRETS: usize = 2;

/// Slots that a lookup of a one-shot command reads at a time.
const READ_SIZE: u32 = 8;

/// A one-shot command that writes may find another at it, which ends within this.
const WRITER_PATIENCE: Duration = Duration::from_secs(1);

/// A node that was started in the background a moment ago may need this long to be there.
const PATIENCE: Duration = Duration::from_secs(1);

/// Becomes the table's writer, where it admits one; waits for another that ends soon.
///
/// # Errors
/// That there is another writer, or what the fabric says.
pub fn start_writing(table: &Table) -> Result<()> {
    let since = Instant::now();
    loop {
        match table.start_writing() {
            Err(StoreError::Index(IndexError::WriterBusy { .. }))
                if since.elapsed() < WRITER_PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(StoreError::Index(IndexError::WriterBusy { writer })) => {
                return Err(Failure::WriterBusy {
                    table: table.name().into(),
                    writer,
                    address: None,
                });
            }
            started => return Ok(started?),
        }
    }
}

/// The address and the right of a verb that was refused.
fn refused(error: &StoreError) -> Option<(RemoteAddr, Rights)> {
    match error.fabric()? {
        FabricError::AccessDenied { at, needed, .. } => Some((*at, *needed)),
        _ => None,
    }
}

/// The secrets of a file, one a line: that of clients, and another that is valid as well.
///
/// # Errors
/// As [`Context::secrets`].
pub fn secrets_in(path: &Path) -> Result<Vec<Secret>> {
    let bytes = content_of(path, LONGEST_SECRET)?;
    secrets_of(&bytes).map_err(|failure| Failure::Failed(format!("{}: {failure}", path.display())))
}

/// The content of a file that only its owner should read, of at most so many bytes.
///
/// # Errors
/// A file that cannot be read, that is longer, or that everybody may write.
pub fn content_of(path: &Path, most: u64) -> Result<Vec<u8>> {
    let failed = || Failure::io(path.display().to_string());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed())?;
    check_mode(path, file.metadata().map_err(failed())?.mode())?;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed())?;
    if bytes.len() as u64 > most {
        return Err(Failure::Failed(format!(
            "{}: such a file has at most {most} bytes",
            path.display()
        )));
    }
    Ok(bytes)
}

/// The content of a file of certificates.
///
/// # Errors
/// A file that cannot be read, or that is longer than any such file.
pub fn certificates_in(path: &Path) -> Result<Vec<u8>> {
    let failed = || Failure::io(path.display().to_string());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed())?;
    file.take(LONGEST_PEM + 1)
        .read_to_end(&mut bytes)
        .map_err(failed())?;
    if bytes.len() as u64 > LONGEST_PEM {
        return Err(Failure::Failed(format!(
            "{}: a file of certificates has at most {LONGEST_PEM} bytes",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Checks who may use the file of a secret, as its mode says.
fn check_mode(path: &Path, mode: u32) -> Result<()> {
    const OTHERS_READ: u32 = 0o004;
    const OTHERS_WRITE: u32 = 0o002;
    let shown = path.display();
    if mode & OTHERS_WRITE != 0 {
        return Err(Failure::Failed(format!(
            "{shown}: everybody on this machine can write it, so it is no secret\n  try:  chmod 600 {shown}"
        )));
    }
    if mode & OTHERS_READ != 0 {
        // Containers are given theirs so: it is no failure.
        output::note(format_args!(
            "warning: everybody on this machine can read the secret in {shown}: chmod 600 {shown}"
        ));
    }
    Ok(())
}

fn secrets_of(bytes: &[u8]) -> Result<Vec<Secret>> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let secrets = lines.map(|line| Ok(Secret::new(line).map_err(StoreError::from)?));
    let secrets = secrets.collect::<Result<Vec<_>>>()?;
    if secrets.len() > MOST_SECRETS {
        return Err(Failure::Failed(format!(
            "there are {} lines: at most {MOST_SECRETS} secrets are valid at a time",
            secrets.len()
        )));
    }
    Ok(secrets)
}

const NO_ADDRESS: &str = "no store was named
  start one:  farslot serve shm://work &        (or tcp://127.0.0.1:7000)
  name it:    export FARSLOT_ADDRESS=shm://work    (or -a shm://work with each command)
  or see it all at work first:  farslot demo";

impl Context {
    /// The address of a store that outlives this command.
    ///
    /// # Errors
    /// A usage failure that names the next step.
    pub fn shared_address(&self) -> Result<&Address> {
        match &self.address {
            Some(address @ (Address::Shm { .. } | Address::Tcp { .. } | Address::Verbs { .. })) => {
                Ok(address)
            }
            Some(other) => Err(Failure::Usage(format!(
                "the memory of {other} would end with this command; use a shm://, tcp://, tcps:// or verbs:// address\n  \
                 start one:  farslot serve shm://work &"
            ))),
            None => Err(Failure::Usage(NO_ADDRESS.into())),
        }
    }

    /// Opens the store that the user named.
    ///
    /// # Errors
    /// What the store says; a usage failure if none was named.
    pub fn store(&self) -> Result<Store> {
        self.store_with(OpenOptions::default())
    }

    /// The secrets that the user gave, the one to use first: none is a part of the command line.
    ///
    /// # Errors
    /// A file that cannot be read, or a secret that could be guessed; an empty one too, so that
    /// nothing is served to all because a variable was not set.
    pub fn secrets(&self) -> Result<Vec<Secret>> {
        match (&self.secret_file, std::env::var_os(SECRET)) {
            (Some(path), _) => secrets_in(path),
            (None, Some(secret)) => secrets_of(secret.as_bytes()),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The certificate and the key by which this side proves itself under TLS.
    ///
    /// # Errors
    /// A file that cannot be read; one without the other.
    pub fn own_certificate(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        // clap would not take one from a flag where the other is from the environment.
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) => return Ok(None),
            _ => {
                let both = "--tls-cert FILE and --tls-key FILE go together: one is not given";
                return Err(Failure::Usage(both.into()));
            }
        };
        Ok(Some((
            certificates_in(certificate)?,
            content_of(key, LONGEST_PEM)?,
        )))
    }

    /// Refuses a certificate without its key, and a key alone, also where neither is needed.
    ///
    /// # Errors
    /// One without the other.
    pub fn check_certificate(&self) -> Result<()> {
        match self.tls_cert.is_some() == self.tls_key.is_some() {
            true => Ok(()),
            false => self.own_certificate().map(drop),
        }
    }

    /// Which nodes are trusted under TLS, and the certificate of this client.
    fn tls_client(&self, address: &Address) -> Result<TlsClient> {
        let trust = match &self.tls_ca {
            Some(path) => Trust::Authorities(certificates_in(path)?),
            None if !self.tls_pin.is_empty() => Trust::Pinned(self.tls_pin.clone()),
            None => {
                return Err(Failure::Usage(format!(
                    "nothing says which nodes are trusted at {address}\n  \
                     name their authority: --tls-ca FILE, or their certificate: --tls-pin FINGERPRINT, \
                     which `farslot serve` prints"
                )));
            }
        };
        let identity = self.own_certificate()?;
        let identity = identity.as_ref().map(|(chain, key)| (&**chain, &**key));
        Ok(TlsClient::new(&trust, identity).map_err(StoreError::from)?)
    }

    /// How a store is opened, with the secret and the certificates where the address needs them.
    ///
    /// # Errors
    /// As [`Context::secrets`]; certificates that cannot be used.
    pub fn open_options(&self, address: &Address) -> Result<OpenOptions> {
        self.check_certificate()?;
        let secret = match address {
            Address::Tcp { .. } | Address::Verbs { .. } => self.secrets()?.into_iter().next(),
            _ => None,
        };
        let tls = match address {
            Address::Tcp { tls: true, .. } => Some(self.tls_client(address)?),
            _ => None,
        };
        Ok(OpenOptions {
            secret,
            tls,
            grant: self.grant.clone(),
            access: self.access.into(),
            ..OpenOptions::default()
        })
    }

    /// A refused right, with what the grant may not do to which table; any other failure as it is.
    #[must_use]
    pub fn with_refused_table(&self, failure: Failure) -> Failure {
        let Failure::Store { error, .. } = &failure else {
            return failure;
        };
        let Some((at, needed)) = refused(error) else {
            return failure;
        };
        let table = self.store().and_then(|store| Ok(store.table_at(at)?));
        let of = match table {
            Ok(Some(table)) => format!("in the table {table:?}"),
            Ok(None) => "in the catalog or beside all tables".into(),
            Err(_) => return failure,
        };
        let grant = match &*self.grant {
            DEFAULT_GRANT => "this client".into(),
            grant => format!("the grant {grant:?}"),
        };
        Failure::Failed(format!(
            "{grant} has no right to {needed} {of} (--grant): {error}"
        ))
    }

    fn store_with(&self, options: OpenOptions) -> Result<Store> {
        let address = self.shared_address()?;
        let admission = self.open_options(address)?;
        let options = OpenOptions {
            secret: admission.secret,
            tls: admission.tls,
            grant: admission.grant,
            access: admission.access,
            ..options
        };
        let since = Instant::now();
        loop {
            match Store::open_with(&address.to_string(), options.clone()) {
                Err(StoreError::Fabric(
                    FabricError::NoSuchRegion { .. } | FabricError::ConnectionRefused { .. },
                )) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                opened => return Ok(opened?),
            }
        }
    }

    /// Opens a table of the store that the user named, for a few lookups: with a read size that
    /// does well enough, for the model's best takes longer to find than it saves.
    ///
    /// # Errors
    /// As [`Context::store`], or that there is no such table.
    pub fn table(&self, name: &str) -> Result<Table> {
        Ok(self.store_for_lookups()?.table(name)?)
    }

    fn store_for_lookups(&self) -> Result<Store> {
        let options = OpenOptions {
            read_policy: Some(ReadPolicy::Fixed(READ_SIZE)),
            ..OpenOptions::default()
        };
        self.store_with(options)
    }

    /// Opens a table of the store that the user named, to look at its records. Where only its
    /// writer can, this is it then, if another one-shot command ends soon.
    ///
    /// # Errors
    /// As [`Context::writable_table`].
    pub fn readable_table(&self, name: &str) -> Result<Table> {
        Self::readable(self.table(name)?)
    }

    /// As [`Context::readable_table`], with the moments at which records expire
    /// ([`Store::stored_table`]).
    ///
    /// # Errors
    /// As [`Context::readable_table`].
    pub fn readable_stored_table(&self, name: &str) -> Result<Table> {
        Self::readable(self.store_for_lookups()?.stored_table(name)?)
    }

    fn readable(table: Table) -> Result<Table> {
        if table.scheme().writer_alone() {
            start_writing(&table)?;
        }
        Ok(table)
    }

    /// Opens a table of the store that the user named, to write to it. Where it admits one writer,
    /// this is it then, if another one-shot command ends soon.
    ///
    /// # Errors
    /// As [`Context::table`], or that there is another writer.
    pub fn writable_table(&self, name: &str) -> Result<Table> {
        let table = self.table(name)?;
        start_writing(&table)?;
        Ok(table)
    }
}
