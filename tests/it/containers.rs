//! A server in a real container.
