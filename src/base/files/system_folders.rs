//! Folders that belong to the machine and not to a project.

/// Programs, libraries, settings. What is in them is not seen as an input; a confined command may read them as a whole.
pub const SYSTEM_FOLDERS: [&str; 13] =
    ["/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr"];
