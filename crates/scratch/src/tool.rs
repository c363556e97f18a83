//! Finds programs and libraries that harm other processes: system calls that fail, and clocks that are wrong.

use std::path::PathBuf;

/// Where `strace` is; `None` if it is not installed.
pub fn strace() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("strace")).find(|program| program.exists())
}

/// The library that gives a process another clock (`LD_PRELOAD`); `None` if it is not installed.
pub fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = folders.chain(["/usr/lib", "/usr/lib64"].map(PathBuf::from));
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}
