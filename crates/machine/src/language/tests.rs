//! Tests of the definition language, by what goes in and what comes out.
