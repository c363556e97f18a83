//! One process per database file: a lock file beside it, held as long as the store is open.

use crate::port::{Error, Result};
use rustix::fs::{FlockOperation, flock, fstatfs};
use std::{
    fs::File,
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
};

/// File systems where neither locks nor syncs can be trusted: NFS, SMB, SMB2, CIFS.
const NETWORK_FILE_SYSTEMS: [u32; 4] = [0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42];

/// The held lock. The kernel lets go of it when the process ends, however it ends.
pub(super) struct Lock {
    _file: File,
}

/// Takes the lock of the database at `path`, or says who has it.
pub(super) fn acquire(path: &Path) -> Result<Lock> {
    let lock = lock_path(path);
    let failed = |err: std::io::Error| Error::Unavailable(format!("{}: {err}", lock.display()));
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(&lock).map_err(failed)?;
    let system = fstatfs(&file).map_err(|err| failed(err.into()))?.f_type;
    if NETWORK_FILE_SYSTEMS.iter().any(|&network| u32::try_from(system).is_ok_and(|kind| kind == network)) {
        return Err(Error::Unavailable(format!("{} is on a network disk: use a local one", path.display())));
    }
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        return Err(Error::InUse(format!(
            "{} is in use by process {}: stop it first, or use another file",
            path.display(),
            holder.trim()
        )));
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(Lock { _file: file })
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
