//! triton
