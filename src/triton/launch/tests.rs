//! Rules that hold for every plan.
