//! A server below real Open MPI.
