//! Tests of the fit.
