//! Stages that run elsewhere: in a Slurm job, or on hosts that are reached over ssh.

pub mod hosts;
mod remote_task;
pub mod slurm;
pub mod ssh;
