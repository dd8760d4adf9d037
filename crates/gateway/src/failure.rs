//! Errors that clients are told, in Redis's words where Redis has the same.

use farslot::{ByteCount, ErrorKind, StoreError};

/// Why a command was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("ERR unknown command '{name}', with args beginning with: {arguments}")]
    UnknownCommand { name: String, arguments: String },
    #[error("ERR unknown subcommand '{name}'. Try {command} HELP.")]
    UnknownSubcommand { command: &'static str, name: String },
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(String),
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NoInteger,
    #[error("ERR value is not a valid float")]
    NoFloat,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR decrement would overflow")]
    DecrementOverflow,
    #[error("ERR increment would produce NaN or Infinity")]
    NoFiniteSum,
    #[error("ERR offset is out of range")]
    Offset,
    #[error(
        "ERR string exceeds maximum allowed size (proto-max-bulk-len): {bytes} bytes, and the limit is {limit}"
    )]
    TooLong { bytes: usize, limit: usize },
    #[error("ERR a pattern of {bytes} bytes is longer than the limit of {limit} bytes")]
    LongPattern { bytes: usize, limit: usize },
    #[error("ERR {0}")]
    Skipped(#[from] crate::frame::TooLong),
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    #[error("ERR NX and XX, GT or LT options at the same time are not compatible")]
    ExpireConditions,
    #[error("ERR GT and LT options at the same time are not compatible")]
    GreaterAndLess,
    #[error("ERR Unsupported option {0}")]
    ExpireOption(String),
    #[error("ERR DB index is out of range")]
    NoDatabase,
    #[error("ERR invalid cursor")]
    Cursor,
    #[error("ERR count should be greater than or equal to -1")]
    SlowLogCount,
    #[error("NOPROTO unsupported protocol version")]
    ProtocolVersion,
    #[error("ERR Protocol version is not an integer or out of range")]
    NoProtocolVersion,
    #[error("ERR Syntax error in HELLO option '{0}'")]
    HelloOption(String),
    #[error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
    )]
    HelloWithoutSecret,
    #[error("NOAUTH Authentication required.")]
    NotAdmitted,
    #[error("NOPERM the grant '{grant}' {why}")]
    NoUser { grant: String, why: &'static str },
    #[error("NOPERM User {user} has no permissions to run the '{command}' command")]
    CommandDenied { user: String, command: &'static str },
    #[error("NOPERM User {user} has no permissions to access database {database}")]
    DatabaseDenied { user: String, database: u8 },
    #[error("NOPERM User {user} has no permissions to access one of the keys used as arguments")]
    KeyDenied { user: String },
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    WrongSecret,
    #[error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
    )]
    NoSecret,
    #[error("ERR Client names cannot contain spaces, newlines or special characters.")]
    ClientName,
    #[error(
        "ERR the reply would be longer than the {limit} bytes that are left for it and the request"
    )]
    LongReply { limit: usize },
    #[error("ERR max number of clients reached")]
    Connections,
    #[error("ERR the request has {} so far, and all buffers of the gateway are in use", ByteCount(*bytes))]
    Buffers { bytes: usize },
    #[error("ERR Protocol error: {0}")]
    Protocol(#[from] crate::frame::ProtocolError),
    #[error("ERR MULTI calls can not be nested")]
    NestedMulti,
    #[error("ERR WATCH inside MULTI is not allowed")]
    WatchInMulti,
    #[error("ERR {0} without MULTI")]
    NoMulti(&'static str),
    #[error("ERR Command not allowed inside a transaction")]
    NotInMulti,
    #[error("ERR the transaction would have {would_be} {quantity}, and the limit is {limit}")]
    LongTransaction {
        quantity: &'static str,
        would_be: usize,
        limit: usize,
    },
    #[error(
        "ERR the watched keys would take {bytes} bytes, each counted with 256 more, and the limit is {limit}"
    )]
    ManyWatched { bytes: usize, limit: usize },
    #[error("EXECABORT Transaction discarded because of previous errors.")]
    Aborted,
    /// Why, without a code.
    #[error("EXECABORT Transaction discarded because of: {0}")]
    Discarded(String),
    #[error(
        "OOM command not allowed when used memory > 'maxmemory': {0}. INFO memory says what has it"
    )]
    OutOfMemory(String),
    #[error("ERR {0}")]
    Store(String),
}

/// The codes that errors begin with.
pub(crate) const CODES: [&str; 7] = [
    "ERR",
    "NOAUTH",
    "NOPERM",
    "NOPROTO",
    "OOM",
    "WRONGPASS",
    "EXECABORT",
];

impl Failure {
    /// The number of its code among [`CODES`].
    pub(crate) const fn code(&self) -> usize {
        match self {
            Self::HelloWithoutSecret | Self::NotAdmitted => 1,
            Self::NoUser { .. }
            | Self::CommandDenied { .. }
            | Self::DatabaseDenied { .. }
            | Self::KeyDenied { .. } => 2,
            Self::ProtocolVersion => 3,
            Self::OutOfMemory(_) => 4,
            Self::WrongSecret => 5,
            Self::Aborted | Self::Discarded(_) => 6,
            _ => 0,
        }
    }

    /// The transaction is discarded because of this.
    pub(crate) fn discards(&self) -> Self {
        let message = self.to_string();
        let why = message.split_once(' ').map_or("", |(_, why)| why);
        Self::Discarded(why.into())
    }

    /// Whether it says that there is no such command, or none with so many arguments, as far as
    /// that shows from the names of commands and subcommands.
    pub(crate) fn is_no_command(&self) -> bool {
        match self {
            Self::UnknownCommand { .. } | Self::UnknownSubcommand { .. } => true,
            Self::Arity(command) => command.contains('|'),
            _ => false,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            ErrorKind::Full | ErrorKind::OutOfMemory => Self::OutOfMemory(error.to_string()),
            _ => Self::Store(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_begin_with_their_codes() {
        for failure in [
            Failure::Syntax,
            Failure::HelloWithoutSecret,
            Failure::NotAdmitted,
            Failure::KeyDenied {
                user: String::new(),
            },
            Failure::ProtocolVersion,
            Failure::OutOfMemory(String::new()),
            Failure::WrongSecret,
            Failure::Aborted,
            Failure::Syntax.discards(),
            Failure::Store(String::new()),
        ] {
            let message = failure.to_string();
            assert_eq!(
                message.split(' ').next(),
                Some(CODES[failure.code()]),
                "{message}"
            );
        }
    }
}
